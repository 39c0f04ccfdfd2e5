// The messages of OpenAI's chat API as chat templates take them, and its tools.
//
// Templates want the arguments of a call as an object and the name of the tool that a result is of; OpenAI's messages
// have a string of JSON and the call's id. A "developer" is a "system".
#pragma once

#include "base/json.h"
#include "chat/turn.h"
#include "serve/answer_request.h"
#include "serve/fields.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

// `messages`: the list of the request. Names of members without effect go to the request's `ignored`, and what users
// show to its `media`. `places`: as MediaSink has them.
Outcome<Json> openai_messages(const Json& messages, AnswerRequest& request, std::vector<std::string> places = {});

// The text of a message's content: a string, or parts whose text is joined. `where` names it in sentences.
Outcome<std::string> text_of_parts(const Json& content, const std::string& where);
// The same with pictures and sounds, which go to `sink`: text, or parts as a template takes them.
Outcome<Json> content_of_parts(const Json& content, const std::string& where, MediaSink& sink);

// The arguments of a call in the client's history: an object, or the text of one; none is an empty object.
Outcome<Json> call_arguments(const Json* given, const std::string& where);

// Reads tools, tool_choice and parallel_tool_calls into the template's variables and the settings.
Checked read_openai_tools(Fields& fields, const ServedModel& model, AnswerRequest& request);
// OpenAI's list of tools, checked: each a function with a name.
Outcome<Json> checked_tools(const Json& tools);

// The system message of the model's store goes before messages that have none.
void add_stored_system(Json& messages, const ServedModel& model);

}  // namespace sluice
