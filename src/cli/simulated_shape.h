#pragma once
// The models that `weft simulate` knows: shapes by name, GGUF files and config.json.

#include <string>

#include "base/result.h"
#include "time/model_shape.h"

namespace weft {

// An error names what the Ascend kernels do not have, or what is missing.
Result<timing::ModelShape> find_model_shape(const std::string& name);
// Of the text of a config.json; `name` is for messages.
Result<timing::ModelShape> model_shape_of_json(const std::string& name, const std::string& text);

}  // namespace weft
