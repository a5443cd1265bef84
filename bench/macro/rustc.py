"""rustc on a generated crate: types, traits, generics, borrow checker, then LLVM.

rustc interns types and keeps its tree in arenas, but works on vectors and hash maps that come and go with each query;
code is generated on several threads, so that modules made by one thread are freed by another. The distribution's
rustc is what runs: the one of rustup has jemalloc linked in, where no preloaded allocator is asked.
"""
import random
import re

from suite import catalog
from suite.context import checksum

MODULES = {"tiny": 1, "quick": 3, "full": 7}
MODULE = r"""
pub mod m@ {
    use std::collections::{BTreeMap, HashMap};
    use std::fmt::Display;
    #[derive(Debug, Clone, PartialEq, PartialOrd, Hash, Eq)]
    pub enum Shape { Dot, Line { from: i64, to: i64 }, Group(Vec<Shape>), Named(String, Box<Shape>) }
    pub trait Area { fn area(&self) -> i64; fn twice(&self) -> i64 { self.area() * NUMBER } }
    impl Area for Shape {
        fn area(&self) -> i64 {
            match self {
                Shape::Dot => NUMBER,
                Shape::Line { from, to } if from > to => from - to + NUMBER,
                Shape::Line { from, to } => to - from,
                Shape::Group(all) => all.iter().map(Area::area).sum(),
                Shape::Named(name, inner) => name.len() as i64 * inner.twice(),
            }
        }
    }
    pub fn index<K: Ord + Clone + Display, T: Area>(rows: &[(K, T)]) -> BTreeMap<K, Vec<String>> {
        let mut out: BTreeMap<K, Vec<String>> = BTreeMap::new();
        for (key, row) in rows.iter().filter(|(_, row)| row.area() % NUMBER != 0) {
            out.entry(key.clone()).or_default().push(format!("{}:{}", key, row.twice()));
        }
        out
    }
    pub fn run(n: i64) -> usize {
        let row = |i| (format!("k{}", i % NUMBER), Shape::Line { from: i, to: i * NUMBER });
        let rows: Vec<(String, Shape)> = (0..n).map(row).collect();
        let mut seen: HashMap<&str, Vec<&Shape>> = HashMap::new();
        for (key, row) in &rows { seen.entry(key).or_default().push(row); }
        let nested = Shape::Named("n@".to_string(), Box::new(Shape::Group(rows.iter().map(|r| r.1.clone()).collect())));
        index(&rows).len() + seen.values().map(Vec::len).max().unwrap_or(NUMBER) + nested.area() as usize
    }
}
"""


def prepare(folder, scale):
    draw, text = random.Random(1), "#![crate_type = \"rlib\"]\n"
    for number in range(MODULES[scale]):
        text += re.sub("NUMBER", lambda _: str(draw.randint(2, 90)), MODULE.replace("@", str(number)))
    (folder / "many.rs").write_text(text)


def run(context):
    context.finish(["/usr/bin/rustc", "--edition=2021", "-Copt-level=0", "-Ccodegen-units=4",
                    "-o", context.scratch / "libmany.rlib", "many.rs"], cwd=context.folder)
    return checksum(context.scratch / "libmany.rlib")


WORKLOAD = catalog.Program(name="rustc", group="programs", needs=[("/usr/bin/rustc", "rustc")], prepare=prepare,
                           run=run, sentence="rustc on a generated crate: queries, then LLVM on several threads")
