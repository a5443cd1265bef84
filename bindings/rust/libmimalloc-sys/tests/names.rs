//! The names of version 0.1 of the crate in the registry. If this does not compile, neither do programs that were written
//! for it.
#![cfg(feature = "extended")]
#![allow(unused_imports)]

use libmimalloc_sys::{
    _mi_option_last, mi_aligned_alloc, mi_arena_id_t, mi_arena_min_size, mi_block_visit_fun, mi_calloc,
    mi_calloc_aligned, mi_calloc_aligned_at, mi_cfree, mi_check_owned, mi_collect, mi_deferred_free_fun, mi_error_fun,
    mi_expand, mi_free, mi_free_aligned, mi_free_size, mi_free_size_aligned, mi_free_small, mi_good_size,
    mi_heap_area_t, mi_heap_calloc, mi_heap_calloc_aligned, mi_heap_calloc_aligned_at, mi_heap_check_owned,
    mi_heap_collect, mi_heap_contains_block, mi_heap_delete, mi_heap_destroy, mi_heap_get_backing, mi_heap_get_default,
    mi_heap_malloc, mi_heap_malloc_aligned, mi_heap_malloc_aligned_at, mi_heap_malloc_small, mi_heap_mallocn,
    mi_heap_new, mi_heap_new_in_arena, mi_heap_realloc, mi_heap_realloc_aligned, mi_heap_realloc_aligned_at,
    mi_heap_reallocf, mi_heap_reallocn, mi_heap_realpath, mi_heap_recalloc, mi_heap_recalloc_aligned,
    mi_heap_recalloc_aligned_at, mi_heap_rezalloc, mi_heap_rezalloc_aligned, mi_heap_rezalloc_aligned_at,
    mi_heap_set_default, mi_heap_strdup, mi_heap_strndup, mi_heap_t, mi_heap_visit_blocks, mi_heap_zalloc,
    mi_heap_zalloc_aligned, mi_heap_zalloc_aligned_at, mi_heap_zalloc_small, mi_is_in_heap_region, mi_malloc,
    mi_malloc_aligned, mi_malloc_aligned_at, mi_malloc_small, mi_mallocn, mi_manage_os_memory_ex, mi_option_get,
    mi_option_is_enabled, mi_option_large_os_pages, mi_option_limit_os_alloc, mi_option_max_errors,
    mi_option_max_warnings, mi_option_os_tag, mi_option_reserve_huge_os_pages, mi_option_reserve_huge_os_pages_at,
    mi_option_reserve_os_memory, mi_option_set, mi_option_set_default, mi_option_set_enabled,
    mi_option_set_enabled_default, mi_option_show_errors, mi_option_show_stats, mi_option_t, mi_option_use_numa_nodes,
    mi_option_verbose, mi_output_fun, mi_posix_memalign, mi_process_info, mi_process_init, mi_realloc,
    mi_realloc_aligned, mi_realloc_aligned_at, mi_reallocf, mi_reallocn, mi_realpath, mi_recalloc, mi_recalloc_aligned,
    mi_recalloc_aligned_at, mi_register_deferred_free, mi_register_error, mi_register_output, mi_reserve_os_memory_ex,
    mi_rezalloc, mi_rezalloc_aligned, mi_rezalloc_aligned_at, mi_stats_get_json, mi_stats_merge, mi_stats_print,
    mi_stats_print_out, mi_stats_reset, mi_strdup, mi_strndup, mi_theap_t, mi_theap_zalloc_small, mi_thread_done,
    mi_thread_init, mi_thread_stats_print_out, mi_unsafe_heap_page_is_under_utilized, mi_usable_size, mi_version,
    mi_zalloc, mi_zalloc_aligned, mi_zalloc_aligned_at, mi_zalloc_small, MI_SMALL_SIZE_MAX,
};

#[test]
fn names_of_the_other_crate_are_there() {
    assert_eq!(MI_SMALL_SIZE_MAX, 128 * size_of::<usize>());
    let options =
        [mi_option_show_errors, mi_option_verbose, mi_option_large_os_pages, mi_option_max_warnings, _mi_option_last];
    assert_eq!(options, [0, 2, 6, 20, 47]);
}
