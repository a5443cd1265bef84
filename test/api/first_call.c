// SPDX-License-Identifier: MIT
// first_call.c - every public function as the first call of a process, before any constructor
// ran.
//
// A function in .preinit_array runs before the constructors of all libraries: it is the earliest
// moment at which a program can call. The process then goes on to `main`, allocates and ends as
// usual.
#include "spawn.h"
#include "test_api.h"

#include <mimalloc-stats.h>
#include <unistd.h>

static size_t sink;

static void use(const void* p) { sink += (size_t)(uintptr_t)p; }

static void on_output(const char* text, void* arg) {
  (void)arg;
  sink += strlen(text);
}

static void on_error(int err, void* arg) {
  (void)arg;
  sink += (size_t)err;
}

static void on_deferred(bool force, unsigned long long heartbeat, void* arg) {
  (void)arg;
  sink += force ? 1 : (size_t)heartbeat;
}

static bool on_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                     void* arg) {
  (void)arg;
  use(heap);
  use(block == NULL ? area->blocks : block);
  sink += size;
  return true;
}

static bool on_heap(mi_heap_t* heap, void* arg) {
  (void)arg;
  use(heap);
  return true;
}

static bool on_commit(bool commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)arg;
  use(start);
  sink += size;
  if (is_zero != NULL) *is_zero = false;
  return commit; // the memory stays
}

static int local_object;
static char memory[48 * 1024 * 1024]; // for arenas
static const mi_subproc_id_t no_subproc;

static bool manage_memory(void) {
  return mi_manage_memory(memory, sizeof(memory), false, false, true, -1, false, &on_commit, NULL,
                          NULL);
}

#define CALL(name, expression)                                                                     \
  static void call_##name(void) { expression; }

CALL(malloc, use(mi_malloc(100)))
CALL(malloc_large, use(mi_malloc(10000000)))
CALL(malloc_zero_size, use(mi_malloc(test_opaque(0))))
CALL(malloc_too_large, use(mi_malloc(test_opaque(SIZE_MAX))))
CALL(calloc, use(mi_calloc(10, 10)))
CALL(zalloc, use(mi_zalloc(100)))
CALL(realloc, use(mi_realloc(NULL, 100)))
CALL(reallocf, use(mi_reallocf(NULL, 100)))
CALL(expand, use(mi_expand(NULL, 100)))
CALL(free, mi_free(NULL))
CALL(free_foreign, mi_free(test_opaque_pointer(&local_object)))
CALL(malloc_small, use(mi_malloc_small(100)))
CALL(zalloc_small, use(mi_zalloc_small(100)))
CALL(free_small, mi_free_small(NULL))
CALL(cfree, mi_cfree(test_opaque_pointer(&local_object)))
CALL(free_size, mi_free_size(NULL, 10))
CALL(free_aligned, mi_free_aligned(NULL, 16))
CALL(free_size_aligned, mi_free_size_aligned(NULL, 10, 16))
CALL(rezalloc, use(mi_rezalloc(NULL, 100)))
CALL(recalloc, use(mi_recalloc(NULL, 10, 10)))
CALL(rezalloc_aligned, use(mi_rezalloc_aligned(NULL, 100, 64)))
CALL(rezalloc_aligned_at, use(mi_rezalloc_aligned_at(NULL, 100, 64, 8)))
CALL(recalloc_aligned, use(mi_recalloc_aligned(NULL, 10, 10, 64)))
CALL(recalloc_aligned_at, use(mi_recalloc_aligned_at(NULL, 10, 10, 64, 8)))
CALL(aligned_recalloc, use(mi_aligned_recalloc(NULL, 10, 10, 64)))
CALL(aligned_offset_recalloc, use(mi_aligned_offset_recalloc(NULL, 10, 10, 64, 8)))
CALL(mallocn, use(mi_mallocn(10, 10)))
CALL(reallocn, use(mi_reallocn(NULL, 10, 10)))
CALL(malloc_aligned, use(mi_malloc_aligned(100, 4096)))
CALL(malloc_aligned_huge, use(mi_malloc_aligned(100, 16 * TEST_MIB)))
CALL(malloc_aligned_at, use(mi_malloc_aligned_at(100, 64, 8)))
CALL(malloc_aligned_wrong, use(mi_malloc_aligned(100, test_opaque(24))))
CALL(zalloc_aligned, use(mi_zalloc_aligned(100, 64)))
CALL(zalloc_aligned_at, use(mi_zalloc_aligned_at(100, 64, 8)))
CALL(calloc_aligned, use(mi_calloc_aligned(10, 10, 64)))
CALL(calloc_aligned_at, use(mi_calloc_aligned_at(10, 10, 64, 8)))
CALL(realloc_aligned, use(mi_realloc_aligned(NULL, 100, 64)))
CALL(realloc_aligned_at, use(mi_realloc_aligned_at(NULL, 100, 64, 8)))
CALL(usable_size, sink += mi_usable_size(NULL))
CALL(usable_size_foreign, sink += mi_usable_size(test_opaque_pointer(&local_object)))
CALL(good_size, sink += mi_good_size(100))
CALL(umalloc, use(mi_umalloc(100, &sink)))
CALL(uzalloc, use(mi_uzalloc(100, &sink)))
CALL(ucalloc, use(mi_ucalloc(10, 10, &sink)))
CALL(umalloc_small, use(mi_umalloc_small(100, &sink)))
CALL(uzalloc_small, use(mi_uzalloc_small(100, &sink)))
CALL(umalloc_aligned, use(mi_umalloc_aligned(100, 64, &sink)))
CALL(uzalloc_aligned, use(mi_uzalloc_aligned(100, 64, &sink)))
CALL(urealloc, use(mi_urealloc(NULL, 100, &sink, &sink)))
CALL(ufree, mi_ufree(NULL, &sink))
CALL(strdup, use(mi_strdup("text")))
CALL(strndup, use(mi_strndup("text", 2)))
CALL(mbsdup, use(mi_mbsdup((const unsigned char*)"text")))
CALL(wcsdup, use(mi_wcsdup(L"text")))
CALL(realpath, use(mi_realpath("/", NULL)))
CALL(dupenv_s, char* b; sink += (size_t)mi_dupenv_s(&b, &sink, "PATH"))
CALL(wdupenv_s, wchar_t* b; sink += (size_t)mi_wdupenv_s(&b, &sink, L"PATH"))
CALL(posix_memalign, void* p; sink += (size_t)mi_posix_memalign(&p, 64, 100))
CALL(memalign, use(mi_memalign(64, 100)))
CALL(aligned_alloc, use(mi_aligned_alloc(64, 100)))
CALL(valloc, use(mi_valloc(100)))
CALL(pvalloc, use(mi_pvalloc(100)))
CALL(reallocarray, use(mi_reallocarray(NULL, 10, 10)))
CALL(reallocarr, void* p = NULL; sink += (size_t)mi_reallocarr(&p, 10, 10))
CALL(malloc_size, sink += mi_malloc_size(NULL))
CALL(malloc_usable_size, sink += mi_malloc_usable_size(NULL))
CALL(malloc_good_size, sink += mi_malloc_good_size(10))
CALL(_expand, use(mi__expand(NULL, 10)))
CALL(new, use(mi_new(100)))
CALL(new_aligned, use(mi_new_aligned(100, 64)))
CALL(new_n, use(mi_new_n(10, 10)))
CALL(new_realloc, use(mi_new_realloc(NULL, 100)))
CALL(new_reallocn, use(mi_new_reallocn(NULL, 10, 10)))
CALL(new_nothrow, use(mi_new_nothrow(100)))
CALL(new_aligned_nothrow, use(mi_new_aligned_nothrow(100, 64)))
CALL(version, sink += (size_t)mi_version())
CALL(process_init, mi_process_init())
CALL(process_done, mi_process_done())
CALL(thread_init, mi_thread_init())
CALL(thread_done, mi_thread_done())
CALL(thread_idle, mi_thread_idle())
CALL(thread_idle_due, sink += (size_t)mi_thread_idle_due())
CALL(thread_set_in_threadpool, mi_thread_set_in_threadpool())
CALL(collect, mi_collect(false))
CALL(collect_force, mi_collect(true))
CALL(collect_reduce, mi_collect_reduce(0))
CALL(process_info, mi_process_info(&sink, &sink, &sink, &sink, &sink, &sink, &sink, &sink))
CALL(process_info_print, mi_process_info_print())
CALL(process_info_print_out, mi_process_info_print_out(&on_output, NULL))
CALL(register_deferred_free, mi_register_deferred_free(&on_deferred, NULL))
CALL(register_output, mi_register_output(&on_output, NULL))
CALL(register_error, mi_register_error(&on_error, NULL))
CALL(stats_print, mi_stats_print(NULL))
CALL(stats_print_out, mi_stats_print_out(&on_output, NULL))
CALL(thread_stats_print_out, mi_thread_stats_print_out(&on_output, NULL))
CALL(stats_reset, mi_stats_reset())
CALL(stats_merge, mi_stats_merge())
CALL(stats_get, mi_stats_t_decl(stats); sink += mi_stats_get(&stats))
CALL(stats_get_json, mi_free(mi_stats_get_json(0, NULL)))
CALL(metrics, char text[100]; sink += mi_metrics(mi_metrics_openmetrics, text, 100))
CALL(stats_as_json, mi_stats_t_decl(stats); mi_free(mi_stats_as_json(&stats, 0, NULL)))
CALL(stats_get_bin_size, sink += mi_stats_get_bin_size(5))
CALL(option_get, sink += (size_t)mi_option_get(mi_option_verbose))
CALL(option_get_clamp, sink += (size_t)mi_option_get_clamp(mi_option_verbose, 0, 1))
CALL(option_get_size, sink += mi_option_get_size(mi_option_arena_reserve))
CALL(option_set, mi_option_set(mi_option_purge_delay, 10))
CALL(option_set_default, mi_option_set_default(mi_option_purge_delay, 10))
CALL(option_is_enabled, sink += mi_option_is_enabled(mi_option_verbose))
CALL(option_enable, mi_option_enable(mi_option_purge_decommits))
CALL(option_disable, mi_option_disable(mi_option_verbose))
CALL(option_set_enabled, mi_option_set_enabled(mi_option_verbose, false))
CALL(option_set_enabled_default, mi_option_set_enabled_default(mi_option_verbose, false))
CALL(options_print, mi_options_print())
CALL(options_print_out, mi_options_print_out(&on_output, NULL))
CALL(_posix_memalign, void* p; sink += (size_t)mi__posix_memalign(&p, 64, 100))
CALL(heap_new, use(mi_heap_new()))
CALL(heap_new_in_arena, use(mi_heap_new_in_arena(NULL)))
CALL(heap_new_ex, use(mi_heap_new_ex(1, true, NULL)))
CALL(heap_delete, mi_heap_delete(NULL))
CALL(heap_delete_main, mi_heap_delete(mi_heap_main()))
CALL(heap_destroy, mi_heap_destroy(NULL))
CALL(heap_destroy_new, mi_heap_destroy(mi_heap_new()))
CALL(heap_main, use(mi_heap_main()))
CALL(heap_of, use(mi_heap_of(&local_object)))
CALL(heap_contains, sink += mi_heap_contains(NULL, &local_object))
CALL(any_heap_contains, sink += mi_any_heap_contains(&local_object))
CALL(is_in_heap_region, sink += mi_is_in_heap_region(&local_object))
CALL(check_owned, sink += mi_check_owned(&local_object))
CALL(heap_set_numa_affinity, mi_heap_set_numa_affinity(NULL, 0))
CALL(heap_collect, mi_heap_collect(NULL, true))
CALL(heap_malloc, use(mi_heap_malloc(NULL, 100)))
CALL(heap_malloc_new, use(mi_heap_malloc(mi_heap_new(), 100)))
CALL(heap_zalloc, use(mi_heap_zalloc(NULL, 100)))
CALL(heap_calloc, use(mi_heap_calloc(NULL, 10, 10)))
CALL(heap_mallocn, use(mi_heap_mallocn(NULL, 10, 10)))
CALL(heap_malloc_small, use(mi_heap_malloc_small(NULL, 100)))
CALL(heap_zalloc_small, use(mi_heap_zalloc_small(NULL, 100)))
CALL(heap_realloc, use(mi_heap_realloc(NULL, NULL, 100)))
CALL(heap_reallocn, use(mi_heap_reallocn(NULL, NULL, 10, 10)))
CALL(heap_reallocf, use(mi_heap_reallocf(NULL, NULL, 100)))
CALL(heap_rezalloc, use(mi_heap_rezalloc(NULL, NULL, 100)))
CALL(heap_recalloc, use(mi_heap_recalloc(NULL, NULL, 10, 10)))
CALL(heap_strdup, use(mi_heap_strdup(NULL, "text")))
CALL(heap_strndup, use(mi_heap_strndup(NULL, "text", 2)))
CALL(heap_realpath, use(mi_heap_realpath(NULL, "/", NULL)))
CALL(heap_malloc_aligned, use(mi_heap_malloc_aligned(NULL, 100, 64)))
CALL(heap_malloc_aligned_at, use(mi_heap_malloc_aligned_at(NULL, 100, 64, 8)))
CALL(heap_zalloc_aligned, use(mi_heap_zalloc_aligned(NULL, 100, 64)))
CALL(heap_zalloc_aligned_at, use(mi_heap_zalloc_aligned_at(NULL, 100, 64, 8)))
CALL(heap_calloc_aligned, use(mi_heap_calloc_aligned(NULL, 10, 10, 64)))
CALL(heap_calloc_aligned_at, use(mi_heap_calloc_aligned_at(NULL, 10, 10, 64, 8)))
CALL(heap_realloc_aligned, use(mi_heap_realloc_aligned(NULL, NULL, 100, 64)))
CALL(heap_realloc_aligned_at, use(mi_heap_realloc_aligned_at(NULL, NULL, 100, 64, 8)))
CALL(heap_rezalloc_aligned, use(mi_heap_rezalloc_aligned(NULL, NULL, 100, 64)))
CALL(heap_rezalloc_aligned_at, use(mi_heap_rezalloc_aligned_at(NULL, NULL, 100, 64, 8)))
CALL(heap_recalloc_aligned, use(mi_heap_recalloc_aligned(NULL, NULL, 10, 10, 64)))
CALL(heap_recalloc_aligned_at, use(mi_heap_recalloc_aligned_at(NULL, NULL, 10, 10, 64, 8)))
CALL(heap_alloc_new, use(mi_heap_alloc_new(NULL, 100)))
CALL(heap_alloc_new_n, use(mi_heap_alloc_new_n(NULL, 10, 10)))
CALL(heap_get_default, use(mi_heap_get_default()))
CALL(heap_set_default, use(mi_heap_set_default(NULL)))
CALL(heap_set_default_new, use(mi_heap_set_default(mi_heap_new())))
CALL(heap_get_backing, use(mi_heap_get_backing()))
CALL(heap_contains_block, sink += mi_heap_contains_block(NULL, &local_object))
CALL(heap_check_owned, sink += mi_heap_check_owned(NULL, &local_object))
CALL(heap_theap, use(mi_heap_theap(NULL)))
CALL(theap_get_default, use(mi_theap_get_default()))
CALL(theap_set_default, use(mi_theap_set_default(NULL)))
CALL(theap_collect, mi_theap_collect(NULL, true))
CALL(theap_malloc, use(mi_theap_malloc(NULL, 100)))
CALL(theap_malloc_default, use(mi_theap_malloc(mi_theap_get_default(), 100)))
CALL(theap_zalloc, use(mi_theap_zalloc(NULL, 100)))
CALL(theap_calloc, use(mi_theap_calloc(NULL, 10, 10)))
CALL(theap_malloc_small, use(mi_theap_malloc_small(NULL, 100)))
CALL(theap_zalloc_small, use(mi_theap_zalloc_small(NULL, 100)))
CALL(theap_malloc_aligned, use(mi_theap_malloc_aligned(NULL, 100, 64)))
CALL(theap_realloc, use(mi_theap_realloc(NULL, NULL, 100)))
CALL(theap_guarded_set_sample_rate, mi_theap_guarded_set_sample_rate(NULL, 1, 1))
CALL(theap_guarded_set_size_bound, mi_theap_guarded_set_size_bound(NULL, 1, 2))
CALL(heap_guarded_set_sample_rate, mi_heap_guarded_set_sample_rate(NULL, 1, 1))
CALL(heap_guarded_set_size_bound, mi_heap_guarded_set_size_bound(NULL, 1, 2))
CALL(subproc_main, use(mi_subproc_main()._mi_subproc_id))
CALL(subproc_current, use(mi_subproc_current()._mi_subproc_id))
CALL(subproc_new, use(mi_subproc_new()._mi_subproc_id))
CALL(subproc_destroy, mi_subproc_destroy(no_subproc))
CALL(subproc_destroy_new, mi_subproc_destroy(mi_subproc_new()))
CALL(subproc_delete, mi_subproc_delete(no_subproc))
CALL(subproc_add_current_thread, mi_subproc_add_current_thread(no_subproc))
CALL(subproc_add_to_new, mi_subproc_add_current_thread(mi_subproc_new()))
CALL(subproc_visit_heaps, sink += mi_subproc_visit_heaps(mi_subproc_main(), &on_heap, NULL))
CALL(reserve_os_memory, sink += (size_t)mi_reserve_os_memory(1, false, false))
CALL(reserve_os_memory_ex, sink += (size_t)mi_reserve_os_memory_ex(1, true, false, true, NULL))
CALL(manage_os_memory, sink += mi_manage_os_memory(memory, sizeof(memory), true, true, true, -1))
CALL(manage_os_memory_ex,
     sink += mi_manage_os_memory_ex(memory, 10, true, true, true, -1, true, NULL))
CALL(manage_memory, sink += manage_memory())
CALL(reserve_huge_os_pages_interleave, sink += (size_t)mi_reserve_huge_os_pages_interleave(1, 0, 1))
CALL(reserve_huge_os_pages_at, sink += (size_t)mi_reserve_huge_os_pages_at(1, -1, 1))
CALL(reserve_huge_os_pages_at_ex,
     sink += (size_t)mi_reserve_huge_os_pages_at_ex(1, 0, 1, true, NULL))
CALL(reserve_huge_os_pages, sink += (size_t)mi_reserve_huge_os_pages(1, 0.001, NULL))
CALL(arena_min_alignment, sink += mi_arena_min_alignment())
CALL(arena_min_size, sink += mi_arena_min_size())
CALL(arena_area, use(mi_arena_area(NULL, &sink)))
CALL(arena_contains, sink += mi_arena_contains(NULL, &local_object))
CALL(arenas_print, mi_arenas_print())
CALL(debug_show_arenas, mi_debug_show_arenas())
CALL(describe, char text[100]; sink += mi_describe(test_opaque_pointer(&local_object), text, 100))
CALL(describe_null, sink += mi_describe(NULL, NULL, 0))
CALL(describe_json, char text[100]; sink += mi_describe_json(&sink, text, 100))
CALL(is_redirected, sink += mi_is_redirected())
CALL(arena_unload, sink += mi_arena_unload(NULL, NULL, NULL, NULL))
CALL(arena_reload, sink += mi_arena_reload(NULL, 0, NULL))
CALL(heap_unload, sink += mi_heap_unload(NULL))
CALL(heap_reload, sink += mi_heap_reload(NULL, NULL))
CALL(heap_visit_blocks, sink += mi_heap_visit_blocks(NULL, true, &on_block, NULL))
CALL(heap_visit_abandoned_blocks,
     sink += mi_heap_visit_abandoned_blocks(NULL, true, &on_block, NULL))
CALL(abandoned_visit_blocks,
     sink += mi_abandoned_visit_blocks(mi_subproc_main(), 0, true, &on_block, NULL))
CALL(theap_visit_blocks, sink += mi_theap_visit_blocks(NULL, true, &on_block, NULL))
CALL(unsafe_heap_page_is_under_utilized,
     sink += mi_unsafe_heap_page_is_under_utilized(NULL, NULL, 50))
CALL(subproc_stats_print_out, mi_subproc_stats_print_out(no_subproc, &on_output, NULL))
CALL(subproc_stats_print_out_main, mi_subproc_stats_print_out(mi_subproc_main(), &on_output, NULL))
CALL(subproc_heap_stats_print_out, mi_subproc_heap_stats_print_out(no_subproc, &on_output, NULL))
CALL(heap_stats_print_out, mi_heap_stats_print_out(NULL, &on_output, NULL))
CALL(explain, mi_explain(&on_output, NULL))
CALL(thread_stats_print, mi_thread_stats_print(&on_output))
CALL(subproc_stats_get, mi_stats_t_decl(stats); sink += mi_subproc_stats_get(no_subproc, &stats))
CALL(subproc_stats_get_exclusive, mi_stats_t_decl(stats);
     sink += mi_subproc_stats_get_exclusive(mi_subproc_main(), &stats))
CALL(heap_stats_get, mi_stats_t_decl(stats); sink += mi_heap_stats_get(NULL, &stats))
CALL(subproc_stats_get_json, mi_free(mi_subproc_stats_get_json(mi_subproc_main(), 0, NULL)))
CALL(heap_stats_get_json, mi_free(mi_heap_stats_get_json(NULL, 0, NULL)))
CALL(heap_stats_merge_to_subproc, mi_heap_stats_merge_to_subproc(NULL))
CALL(heap_stats_merge_to_main, mi_heap_stats_merge_to_main(NULL))

#define ENTRY(name)                                                                                \
  { #name, &call_##name }
static const struct {
  const char* name;
  void (*call)(void);
} calls[] = {
    ENTRY(malloc),
    ENTRY(malloc_large),
    ENTRY(malloc_zero_size),
    ENTRY(malloc_too_large),
    ENTRY(calloc),
    ENTRY(zalloc),
    ENTRY(realloc),
    ENTRY(reallocf),
    ENTRY(expand),
    ENTRY(free),
    ENTRY(free_foreign),
    ENTRY(malloc_small),
    ENTRY(zalloc_small),
    ENTRY(free_small),
    ENTRY(cfree),
    ENTRY(free_size),
    ENTRY(free_aligned),
    ENTRY(free_size_aligned),
    ENTRY(rezalloc),
    ENTRY(recalloc),
    ENTRY(rezalloc_aligned),
    ENTRY(rezalloc_aligned_at),
    ENTRY(recalloc_aligned),
    ENTRY(recalloc_aligned_at),
    ENTRY(aligned_recalloc),
    ENTRY(aligned_offset_recalloc),
    ENTRY(mallocn),
    ENTRY(reallocn),
    ENTRY(malloc_aligned),
    ENTRY(malloc_aligned_huge),
    ENTRY(malloc_aligned_at),
    ENTRY(malloc_aligned_wrong),
    ENTRY(zalloc_aligned),
    ENTRY(zalloc_aligned_at),
    ENTRY(calloc_aligned),
    ENTRY(calloc_aligned_at),
    ENTRY(realloc_aligned),
    ENTRY(realloc_aligned_at),
    ENTRY(usable_size),
    ENTRY(usable_size_foreign),
    ENTRY(good_size),
    ENTRY(umalloc),
    ENTRY(uzalloc),
    ENTRY(ucalloc),
    ENTRY(umalloc_small),
    ENTRY(uzalloc_small),
    ENTRY(umalloc_aligned),
    ENTRY(uzalloc_aligned),
    ENTRY(urealloc),
    ENTRY(ufree),
    ENTRY(strdup),
    ENTRY(strndup),
    ENTRY(mbsdup),
    ENTRY(wcsdup),
    ENTRY(realpath),
    ENTRY(dupenv_s),
    ENTRY(wdupenv_s),
    ENTRY(posix_memalign),
    ENTRY(memalign),
    ENTRY(aligned_alloc),
    ENTRY(valloc),
    ENTRY(pvalloc),
    ENTRY(reallocarray),
    ENTRY(reallocarr),
    ENTRY(malloc_size),
    ENTRY(malloc_usable_size),
    ENTRY(malloc_good_size),
    ENTRY(_expand),
    ENTRY(new),
    ENTRY(new_aligned),
    ENTRY(new_n),
    ENTRY(new_realloc),
    ENTRY(new_reallocn),
    ENTRY(new_nothrow),
    ENTRY(new_aligned_nothrow),
    ENTRY(version),
    ENTRY(process_init),
    ENTRY(process_done),
    ENTRY(thread_init),
    ENTRY(thread_done),
    ENTRY(thread_idle),
    ENTRY(thread_idle_due),
    ENTRY(thread_set_in_threadpool),
    ENTRY(collect),
    ENTRY(collect_force),
    ENTRY(collect_reduce),
    ENTRY(process_info),
    ENTRY(process_info_print),
    ENTRY(process_info_print_out),
    ENTRY(register_deferred_free),
    ENTRY(register_output),
    ENTRY(register_error),
    ENTRY(stats_print),
    ENTRY(stats_print_out),
    ENTRY(thread_stats_print_out),
    ENTRY(stats_reset),
    ENTRY(stats_merge),
    ENTRY(stats_get),
    ENTRY(stats_get_json),
    ENTRY(metrics),
    ENTRY(stats_as_json),
    ENTRY(stats_get_bin_size),
    ENTRY(option_get),
    ENTRY(option_get_clamp),
    ENTRY(option_get_size),
    ENTRY(option_set),
    ENTRY(option_set_default),
    ENTRY(option_is_enabled),
    ENTRY(option_enable),
    ENTRY(option_disable),
    ENTRY(option_set_enabled),
    ENTRY(option_set_enabled_default),
    ENTRY(options_print),
    ENTRY(options_print_out),
    ENTRY(_posix_memalign),
    ENTRY(heap_new),
    ENTRY(heap_new_in_arena),
    ENTRY(heap_new_ex),
    ENTRY(heap_delete),
    ENTRY(heap_delete_main),
    ENTRY(heap_destroy),
    ENTRY(heap_destroy_new),
    ENTRY(heap_main),
    ENTRY(heap_of),
    ENTRY(heap_contains),
    ENTRY(any_heap_contains),
    ENTRY(is_in_heap_region),
    ENTRY(check_owned),
    ENTRY(heap_set_numa_affinity),
    ENTRY(heap_collect),
    ENTRY(heap_malloc),
    ENTRY(heap_malloc_new),
    ENTRY(heap_zalloc),
    ENTRY(heap_calloc),
    ENTRY(heap_mallocn),
    ENTRY(heap_malloc_small),
    ENTRY(heap_zalloc_small),
    ENTRY(heap_realloc),
    ENTRY(heap_reallocn),
    ENTRY(heap_reallocf),
    ENTRY(heap_rezalloc),
    ENTRY(heap_recalloc),
    ENTRY(heap_strdup),
    ENTRY(heap_strndup),
    ENTRY(heap_realpath),
    ENTRY(heap_malloc_aligned),
    ENTRY(heap_malloc_aligned_at),
    ENTRY(heap_zalloc_aligned),
    ENTRY(heap_zalloc_aligned_at),
    ENTRY(heap_calloc_aligned),
    ENTRY(heap_calloc_aligned_at),
    ENTRY(heap_realloc_aligned),
    ENTRY(heap_realloc_aligned_at),
    ENTRY(heap_rezalloc_aligned),
    ENTRY(heap_rezalloc_aligned_at),
    ENTRY(heap_recalloc_aligned),
    ENTRY(heap_recalloc_aligned_at),
    ENTRY(heap_alloc_new),
    ENTRY(heap_alloc_new_n),
    ENTRY(heap_get_default),
    ENTRY(heap_set_default),
    ENTRY(heap_set_default_new),
    ENTRY(heap_get_backing),
    ENTRY(heap_contains_block),
    ENTRY(heap_check_owned),
    ENTRY(heap_theap),
    ENTRY(theap_get_default),
    ENTRY(theap_set_default),
    ENTRY(theap_collect),
    ENTRY(theap_malloc),
    ENTRY(theap_malloc_default),
    ENTRY(theap_zalloc),
    ENTRY(theap_calloc),
    ENTRY(theap_malloc_small),
    ENTRY(theap_zalloc_small),
    ENTRY(theap_malloc_aligned),
    ENTRY(theap_realloc),
    ENTRY(theap_guarded_set_sample_rate),
    ENTRY(theap_guarded_set_size_bound),
    ENTRY(heap_guarded_set_sample_rate),
    ENTRY(heap_guarded_set_size_bound),
    ENTRY(subproc_main),
    ENTRY(subproc_current),
    ENTRY(subproc_new),
    ENTRY(subproc_destroy),
    ENTRY(subproc_destroy_new),
    ENTRY(subproc_delete),
    ENTRY(subproc_add_current_thread),
    ENTRY(subproc_add_to_new),
    ENTRY(subproc_visit_heaps),
    ENTRY(reserve_os_memory),
    ENTRY(reserve_os_memory_ex),
    ENTRY(manage_os_memory),
    ENTRY(manage_os_memory_ex),
    ENTRY(manage_memory),
    ENTRY(reserve_huge_os_pages_interleave),
    ENTRY(reserve_huge_os_pages_at),
    ENTRY(reserve_huge_os_pages_at_ex),
    ENTRY(reserve_huge_os_pages),
    ENTRY(arena_min_alignment),
    ENTRY(arena_min_size),
    ENTRY(arena_area),
    ENTRY(arena_contains),
    ENTRY(arenas_print),
    ENTRY(debug_show_arenas),
    ENTRY(describe),
    ENTRY(describe_null),
    ENTRY(describe_json),
    ENTRY(is_redirected),
    ENTRY(arena_unload),
    ENTRY(arena_reload),
    ENTRY(heap_unload),
    ENTRY(heap_reload),
    ENTRY(heap_visit_blocks),
    ENTRY(heap_visit_abandoned_blocks),
    ENTRY(abandoned_visit_blocks),
    ENTRY(theap_visit_blocks),
    ENTRY(unsafe_heap_page_is_under_utilized),
    ENTRY(subproc_stats_print_out),
    ENTRY(subproc_stats_print_out_main),
    ENTRY(subproc_heap_stats_print_out),
    ENTRY(heap_stats_print_out),
    ENTRY(explain),
    ENTRY(thread_stats_print),
    ENTRY(subproc_stats_get),
    ENTRY(subproc_stats_get_exclusive),
    ENTRY(heap_stats_get),
    ENTRY(subproc_stats_get_json),
    ENTRY(heap_stats_get_json),
    ENTRY(heap_stats_merge_to_subproc),
    ENTRY(heap_stats_merge_to_main),
};
#define CALL_COUNT (sizeof(calls) / sizeof(calls[0]))

static bool is_called_first;

static void call_first(int argc, char** argv, char** environment) {
  (void)environment;
  if (argc < 2) return;
  for (size_t i = 0; i < CALL_COUNT; i++) {
    if (strcmp(argv[1], calls[i].name) != 0) continue;
    calls[i].call();
    is_called_first = true;
  }
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**,
                                                                              char**) = &call_first;

// If this fails, a program whose first call is this function, made by an early constructor,
// crashes.
static void first_call_may_be_any(void** state) {
  (void)state;
  test_skip_if_tracked();
  static spawn_result_t result;
  for (size_t i = 0; i < CALL_COUNT; i++) {
    test_start_self(calls[i].name, NULL, &result);
    if (result.signal != 0 || result.exit_status != 0) {
      fail_msg("%s: signal %d, status %d:\n%s", calls[i].name, result.signal, result.exit_status,
               result.output);
    }
  }
}

// If this fails, settings are lost when the first call comes before libc knows the environment.
static void first_call_knows_the_environment(void** state) {
  (void)state;
  test_skip_if_tracked();
  static spawn_result_t result;
  const char* const environment[] = {"MIMALLOC_SHOW_ERRORS=1", NULL};
  test_start_self("free_foreign", environment, &result); // again in `main`
  assert_int_equal(result.exit_status, 0);
  assert_int_equal(spawn_count(&result, "invalid pointer: 0x"), 1);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    // The allocator works afterwards.
    char* const p = (char*)mi_malloc(1000);
    if (p == NULL) return 2;
    memset(p, 1, 1000);
    mi_free(p);
    if (strcmp(argv[1], "free_foreign") == 0) call_free_foreign();
    return is_called_first ? 0 : 3;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_call_may_be_any),
      cmocka_unit_test(first_call_knows_the_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
