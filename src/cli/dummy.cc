#include <cstdio>

#include "base/progress.h"
#include "cli/byte_size.h"
#include "cli/commands.h"
#include "cli/dummy_model.h"

namespace weft {

Result<int> dummy_command(const DummyOptions& options) {
  const DummyModel model = make_dummy_model(options.spec);
  ProgressBar bar("writing", model.writer.data_bytes(), ProgressUnit::kBytes);
  WEFT_RETURN_IF_ERROR(
      model.writer.write(options.output, [&](uint64_t written) { bar.update(written); }));
  bar.clear();
  for (const std::string& note : model.notes) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}: {} {}, {}\n", options.output.string(), options.spec.shape.name,
             dummy_type_name(options.spec.type), format_bytes(model.writer.data_bytes()));
  return kExitOk;
}

}  // namespace weft
