#pragma once
// How well operators that are added up and interpolated stand for what they are taken for.

#include "cli/text_table.h"
#include "time/chip_model.h"
#include "time/model_shape.h"

namespace weft {

// Quanta of three of the model's layers, as operators added up and as the whole layer program in
// one recording; and operators between simulated shapes, interpolated and simulated.
TextTable check_table(const timing::ChipModel& chip, const timing::ModelShape& shape);

}  // namespace weft
