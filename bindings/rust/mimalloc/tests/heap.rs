//! Heaps with a lifetime. If one of these fails, memory stays after its heap has ended, or values in a heap are damaged.
#![cfg(feature = "heap")]
use std::cell::Cell;
use std::thread;

use mimalloc::Heap;

#[repr(align(4096))]
struct Wide(u8);

fn resident_mib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4 / 1024
}

#[test]
fn values_are_in_their_heap() {
    let (heap, other) = (Heap::new(), Heap::new());
    let number = heap.alloc(0x1122_3344_u32);
    let text = heap.alloc_str("text");
    let numbers = heap.alloc_slice_copy(&[1u16, 2, 3]);
    let wide = heap.alloc(Wide(7));
    assert!(heap.contains(number) && heap.contains(text) && heap.contains(numbers) && heap.contains(wide));
    assert!(!other.contains(number) && !heap.contains(&heap));
    assert_eq!((*number, &*text, &*numbers, wide.0), (0x1122_3344, "text", &[1, 2, 3][..], 7));
    assert_eq!((&raw const *wide).align_offset(4096), 0);
    text.make_ascii_uppercase();
    numbers[0] = 9;
    assert_eq!((&*text, numbers[0], *number), ("TEXT", 9, 0x1122_3344));
}

#[test]
fn values_without_a_size_take_no_memory() {
    let heap = Heap::new();
    heap.alloc(());
    assert_eq!(heap.alloc_str(""), "");
    assert_eq!(heap.alloc_slice_copy::<u64>(&[]), []);
    #[repr(align(64))]
    struct Nothing;
    assert_eq!((&raw const *heap.alloc(Nothing)).align_offset(64), 0);
}

#[test]
fn all_memory_goes_with_the_heap() {
    for _ in 0..50 {
        let heap = Heap::new();
        for _ in 0..1000 {
            heap.alloc([1u8; 32 * 1024]);
        }
    }
    assert!(resident_mib() < 300, "1500 MiB went through heaps that have ended, {} are resident", resident_mib());
}

#[test]
fn destructors_do_not_run() {
    struct Counts<'a>(&'a Cell<i32>);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let count = Cell::new(0);
    let heap = Heap::default();
    heap.alloc(Counts(&count));
    drop(heap);
    assert_eq!(count.get(), 0);
}

#[test]
fn threads_allocate_from_one_heap_at_the_same_time() {
    let heap = Heap::new();
    thread::scope(|scope| {
        let heap = &heap;
        let threads: Vec<_> = (0..4u64)
            .map(|t| scope.spawn(move || (0..5000).map(|i| heap.alloc(t << 32 | i)).collect::<Vec<_>>()))
            .collect();
        for (t, numbers) in (0..).zip(threads.into_iter().map(|thread| thread.join().unwrap())) {
            assert!((0..).zip(&numbers).all(|(i, number)| **number == t << 32 | i));
            assert!(numbers.iter().all(|number| heap.contains(&**number)));
        }
    });
    thread::spawn(move || drop(heap)).join().unwrap();
}

#[test]
#[cfg(feature = "extended")]
fn statistics_are_of_the_heap() {
    let (heap, other) = (Heap::new(), Heap::new());
    heap.alloc([0u8; 100_000]);
    let current = |heap: &Heap| {
        let text = heap.stats_json().unwrap();
        let text = text.to_str().unwrap();
        let (_, rest) = text.split_once("\"page_committed\"").unwrap();
        let (_, rest) = rest.split_once("\"current\":").unwrap();
        rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<usize>().unwrap()
    };
    assert!(current(&heap) >= 100_000 && current(&other) == 0);
}
