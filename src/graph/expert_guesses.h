// Guesses of the next layer's experts, for prefetching them. The next router runs on this layer's hidden state, which
// changes little between layers (Eliseev and Mazur 2023, arXiv:2312.17238, section 3.2). Each `route` that has a later
// one is preceded by a copy of the later one's ops, from hidden state to choice, on this layer's hidden state. No op
// reads the results, so no bit changes. Program::guesses lists them.
#pragma once

#include "graph/program.h"

namespace sluice {

// `program` must have no guesses yet.
Program with_expert_guesses(Program program);

}  // namespace sluice
