// SPDX-License-Identifier: MIT
// os_openbsd.c - tests of src/os/os_bsd.c as it is on OpenBSD, with the means of Linux.
#define TEST_IS_OPENBSD 1
#include "../bsd/on_linux.h"

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(os_maps_at_an_address),
      cmocka_unit_test(os_maps_at_no_address_that_is_taken),
      cmocka_unit_test(os_maps_aligned),
      cmocka_unit_test(os_gives_memory_back),
      cmocka_unit_test(os_knows_what_is_readable),
      cmocka_unit_test(os_has_secrets),
      cmocka_unit_test(os_writes_files),
      cmocka_unit_test(bsd_waits_and_wakes),
      cmocka_unit_test(bsd_waits_no_longer_than_asked),
      cmocka_unit_test(bsd_locks),
      cmocka_unit_test(bsd_knows_the_system),
      cmocka_unit_test(bsd_tells_what_is_resident),
      cmocka_unit_test(bsd_resets),
      cmocka_unit_test(bsd_asks_for_aligned_memory),
      cmocka_unit_test(bsd_reads_faults),
      cmocka_unit_test(bsd_sets_no_key_that_allocates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
