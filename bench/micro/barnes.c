// SPDX-License-Identifier: MIT
// barnes.c - gravity between many bodies with an octree that is built and freed in every step.
//
// Pattern: in each step a tree of two kinds of nodes (cells of eight children, leaves of a few
// bodies) grows in random order, is walked for every body, and is freed as a whole. Few calls of
// malloc for the time spent: what counts is where the nodes lie, not how fast they come.
// Asks: nodes that are walked together should share cache lines and pages; no header between them.
//
// Method: Barnes and Hut, "A hierarchical O(N log N) force-calculation algorithm", Nature, 1986;
// as a benchmark in Leijen, Zorn and de Moura, "Mimalloc: Free List Sharding in Action", 2019.
// Differs: fewer bodies and steps; nodes come from malloc one by one instead of from arrays that
// are kept; one thread; the bodies start in a uniform ball at rest.
#include "bench.h"
#include <math.h>

#define LEAF_BODIES 8
#define DEPTH_MAX 60

typedef struct vector_s {
  double x[3];
} vector_t;

typedef struct body_s {
  vector_t place;
  vector_t speed;
  vector_t force;
  double mass;
} body_t;

typedef struct node_s {
  bool is_leaf;
  uint32_t bodies; // below this node
  double mass;
  vector_t center; // of mass
} node_t;

typedef struct leaf_s {
  node_t node;
  body_t* members[LEAF_BODIES];
} leaf_t;

typedef struct cell_s {
  node_t node;
  node_t* children[8];
} cell_t;

static uint64_t mallocs;

static leaf_t* leaf_new(void) {
  mallocs++;
  leaf_t* const leaf = bench_malloc(sizeof(leaf_t));
  leaf->node = (node_t){true, 0, 0, {{0, 0, 0}}};
  return leaf;
}

static cell_t* cell_new(void) {
  mallocs++;
  cell_t* const cell = bench_malloc(sizeof(cell_t));
  *cell = (cell_t){0};
  return cell;
}

// The octant of a place, and the middle of that octant.
static size_t octant_of(const vector_t* place, vector_t* middle, double half) {
  size_t octant = 0;
  for (size_t k = 0; k < 3; k++) {
    const bool is_upper = place->x[k] >= middle->x[k];
    octant |= (size_t)is_upper << k;
    middle->x[k] += is_upper ? half / 2 : -half / 2;
  }
  return octant;
}

static void tree_insert(node_t** link, body_t* body, vector_t middle, double half, int depth) {
  if (*link == NULL) *link = &leaf_new()->node;
  node_t* const node = *link;
  if (node->is_leaf) {
    leaf_t* const leaf = (leaf_t*)node;
    if (node->bodies < LEAF_BODIES) {
      leaf->members[node->bodies++] = body;
      return;
    }
    if (depth > DEPTH_MAX) bench_fail("the tree is too deep: a place has changed");
    cell_t* const cell = cell_new();
    *link = &cell->node;
    for (size_t i = 0; i < LEAF_BODIES; i++)
      tree_insert(link, leaf->members[i], middle, half, depth);
    free(leaf);
    tree_insert(link, body, middle, half, depth);
    return;
  }
  cell_t* const cell = (cell_t*)node;
  cell->node.bodies++;
  const size_t octant = octant_of(&body->place, &middle, half);
  tree_insert(&cell->children[octant], body, middle, half / 2, depth + 1);
}

// Fill in masses and centers, bottom-up.
static void tree_sum(node_t* node) {
  double mass = 0;
  vector_t sum = {{0, 0, 0}};
  const size_t count = node->is_leaf ? node->bodies : 8;
  for (size_t i = 0; i < count; i++) {
    const vector_t* place = NULL;
    double part = 0;
    if (node->is_leaf) {
      const body_t* const body = ((leaf_t*)node)->members[i];
      place = &body->place;
      part = body->mass;
    } else {
      node_t* const child = ((cell_t*)node)->children[i];
      if (child == NULL) continue;
      tree_sum(child);
      place = &child->center;
      part = child->mass;
    }
    mass += part;
    for (size_t k = 0; k < 3; k++) sum.x[k] += place->x[k] * part;
  }
  node->mass = mass;
  for (size_t k = 0; k < 3; k++) node->center.x[k] = sum.x[k] / mass;
}

static void tree_free(node_t* node) {
  if (node == NULL) return;
  if (!node->is_leaf) {
    for (size_t i = 0; i < 8; i++) tree_free(((cell_t*)node)->children[i]);
  }
  free(node);
}

// Add the pull of a mass; softened, so that close bodies do not fly apart.
static void pull(body_t* body, const vector_t* place, double mass) {
  double gap[3];
  double square = 1e-4;
  for (size_t k = 0; k < 3; k++) {
    gap[k] = place->x[k] - body->place.x[k];
    square += gap[k] * gap[k];
  }
  const double strength = mass / (square * sqrt(square));
  for (size_t k = 0; k < 3; k++) body->force.x[k] += gap[k] * strength;
}

// A cell far away for its size counts as one mass; otherwise look into it.
static void tree_pull(const node_t* node, body_t* body, double size) {
  if (node->is_leaf) {
    const leaf_t* const leaf = (const leaf_t*)node;
    for (size_t i = 0; i < node->bodies; i++) {
      if (leaf->members[i] != body) pull(body, &leaf->members[i]->place, leaf->members[i]->mass);
    }
    return;
  }
  double square = 0;
  for (size_t k = 0; k < 3; k++) {
    const double gap = node->center.x[k] - body->place.x[k];
    square += gap * gap;
  }
  if (size * size < square) { // opening angle 1
    pull(body, &node->center, node->mass);
    return;
  }
  for (size_t i = 0; i < 8; i++) {
    const node_t* const child = ((const cell_t*)node)->children[i];
    if (child != NULL) tree_pull(child, body, size / 2);
  }
}

static void step(body_t* bodies, size_t count, double time) {
  double half = 0;
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < 3; k++) half = fmax(half, fabs(bodies[i].place.x[k]));
  }
  half *= 1.001;
  node_t* root = NULL;
  for (size_t i = 0; i < count; i++) {
    tree_insert(&root, &bodies[i], (vector_t){{0, 0, 0}}, half, 0);
  }
  tree_sum(root);
  if (root->bodies != count || fabs(root->mass - 1) > 1e-9) bench_fail("the tree has lost a mass");
  for (size_t i = 0; i < count; i++) {
    body_t* const body = &bodies[i];
    body->force = (vector_t){{0, 0, 0}};
    tree_pull(root, body, 2 * half);
    for (size_t k = 0; k < 3; k++) body->speed.x[k] += body->force.x[k] * time;
  }
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < 3; k++) bodies[i].place.x[k] += bodies[i].speed.x[k] * time;
  }
  tree_free(root);
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t count = bench_pick(args, 1000, 10000, 20000);
  const size_t steps = bench_pick(args, 2, 8, 14);
  bench_random_t random = {1986};
  mallocs++;
  body_t* const bodies = bench_malloc(count * sizeof(body_t));
  for (size_t i = 0; i < count;) {
    body_t body = {.mass = 1.0 / (double)count};
    double square = 0;
    for (size_t k = 0; k < 3; k++) {
      body.place.x[k] = (double)(bench_random(&random) >> 11) / (double)(1ull << 52) - 1;
      square += body.place.x[k] * body.place.x[k];
    }
    if (square < 1) bodies[i++] = body;
  }
  for (size_t i = 0; i < steps; i++) step(bodies, count, 0.01);
  uint64_t check = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits[3];
    memcpy(bits, bodies[i].place.x, sizeof(bits));
    for (size_t k = 0; k < 3; k++) check = check * 1000003 + bits[k];
  }
  free(bodies);
  bench_report(check, mallocs);
  return 0;
}
