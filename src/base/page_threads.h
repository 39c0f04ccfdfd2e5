// The threads of the page's module, which its host makes: workers that share its memory, each with a module of its own
// around it. They belong to the module for its life, and every pool has them.
#pragma once

#include <cstdint>

namespace sluice {

// By the engine's thread, once, before there is a pool: how many threads there are to be with it, at least 1. Those
// that do not come, or come later, hold up nothing.
void expect_page_threads(uint32_t threads);
// By each of the others, from 1 on: takes its part in the loops of pools, and does not return.
void work_as_page_thread(uint32_t thread);
// By one of them that can compute no more, because a piece of a loop trapped.
void fail_page_threads();

}  // namespace sluice
