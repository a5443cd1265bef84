// SPDX-License-Identifier: MIT
// zone_model.h - a model of the interface by which allocators and macOS know each other, as far as
// src/override/override_zone.c uses it: names, types and the order of fields are those of
// <malloc/malloc.h> and <mach/mach.h> there.
//
// A zone is a table of functions. The system has a list of them; malloc allocates from the first,
// and free asks one after the other whose a block is. test/api/zones.c defines the functions.
//
// Deliberately absent: fields of versions after 10, and what only the system itself does.
#ifndef TEST_ZONE_MODEL_H
#define TEST_ZONE_MODEL_H

#include <stddef.h>
#include <stdint.h>

typedef int kern_return_t;
typedef int boolean_t;
typedef unsigned task_t;
typedef uintptr_t vm_address_t;
typedef uintptr_t vm_size_t;

#define KERN_SUCCESS 0
#define KERN_FAILURE 5

static inline task_t mach_task_self(void) { return 259; }

typedef struct {
  vm_address_t address;
  vm_size_t size;
} vm_range_t;

typedef struct malloc_statistics_t {
  unsigned blocks_in_use;
  size_t size_in_use, max_size_in_use, size_allocated;
} malloc_statistics_t;

#define MALLOC_PTR_IN_USE_RANGE_TYPE 1
#define MALLOC_PTR_REGION_RANGE_TYPE 2

typedef kern_return_t memory_reader_t(task_t task, vm_address_t address, vm_size_t size,
                                      void** local);
typedef void vm_range_recorder_t(task_t task, void* context, unsigned type, vm_range_t* ranges,
                                 unsigned count);

typedef struct _malloc_zone_t malloc_zone_t;

typedef struct malloc_introspection_t {
  kern_return_t (*enumerator)(task_t task, void* context, unsigned mask, vm_address_t zone,
                              memory_reader_t* reader, vm_range_recorder_t* recorder);
  size_t (*good_size)(malloc_zone_t* zone, size_t size);
  boolean_t (*check)(malloc_zone_t* zone);
  void (*print)(malloc_zone_t* zone, boolean_t verbose);
  void (*log)(malloc_zone_t* zone, void* p);
  void (*force_lock)(malloc_zone_t* zone);
  void (*force_unlock)(malloc_zone_t* zone);
  void (*statistics)(malloc_zone_t* zone, malloc_statistics_t* statistics);
  boolean_t (*zone_locked)(malloc_zone_t* zone);
  boolean_t (*enable_discharge_checking)(malloc_zone_t* zone);
  void (*disable_discharge_checking)(malloc_zone_t* zone);
  void (*discharge)(malloc_zone_t* zone, void* p);
  void* enumerate_unavailable_without_blocks;
  void (*reinit_lock)(malloc_zone_t* zone); // from version 9 on
} malloc_introspection_t;

struct _malloc_zone_t {
  void *reserved1, *reserved2;
  size_t (*size)(malloc_zone_t* zone, const void* p); // 0: not in this zone
  void* (*malloc)(malloc_zone_t* zone, size_t size);
  void* (*calloc)(malloc_zone_t* zone, size_t count, size_t size);
  void* (*valloc)(malloc_zone_t* zone, size_t size);
  void (*free)(malloc_zone_t* zone, void* p);
  void* (*realloc)(malloc_zone_t* zone, void* p, size_t size);
  void (*destroy)(malloc_zone_t* zone);
  const char* zone_name;
  unsigned (*batch_malloc)(malloc_zone_t* zone, size_t size, void** blocks, unsigned count);
  void (*batch_free)(malloc_zone_t* zone, void** blocks, unsigned count);
  malloc_introspection_t* introspect;
  unsigned version;
  void* (*memalign)(malloc_zone_t* zone, size_t alignment, size_t size); // 5
  void (*free_definite_size)(malloc_zone_t* zone, void* p, size_t size); // 6
  size_t (*pressure_relief)(malloc_zone_t* zone, size_t goal); // 8
  boolean_t (*claimed_address)(malloc_zone_t* zone, void* p); // 10
};

// Writes the addresses of the zones of a task, in their order.
kern_return_t malloc_get_all_zones(task_t task, memory_reader_t* reader, vm_address_t** zones,
                                   unsigned* count);
void malloc_zone_register(malloc_zone_t* zone);
void malloc_zone_unregister(malloc_zone_t* zone);
malloc_zone_t* malloc_zone_from_ptr(const void* p);
malloc_zone_t* malloc_default_purgeable_zone(void);
void malloc_zone_free(malloc_zone_t* zone, void* p);
void* malloc_zone_realloc(malloc_zone_t* zone, void* p, size_t size);

#endif
