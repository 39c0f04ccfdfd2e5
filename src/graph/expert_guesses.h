// Guesses of what the next layer will choose, for whoever fetches experts ahead: its router on this layer's hidden
// state, which changes little from layer to layer (Eliseev and Mazur 2023, arXiv:2312.17238, section 3.2). Before each
// `route` with another one behind it stands a copy of that one's ops, from the hidden state to the choice, on the
// hidden state of its own. Nothing reads what they give, so that no bit changes; Program::guesses lists them.
#pragma once

#include "graph/program.h"

namespace sluice {

// `program` has none yet.
Program with_expert_guesses(Program program);

}  // namespace sluice
