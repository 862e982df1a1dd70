#include "twin.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "machine.h"

namespace weft::twin {

std::optional<Chip> find_chip(std::string_view name) {
  Chip chip;
  chip.name = name;
  if (name == "910B1") return chip;
  chip.gigahertz = 1.80;
  if (name == "910B2") return chip;
  chip.cores = 20;
  if (name == "910B3") return chip;
  if (name == "910B4") {
    chip.gigahertz = 1.50;
    chip.l2_bytes = uint64_t{96} << 20;
    chip.hbm_bytes = uint64_t{32} << 30;
    return chip;
  }
  if (name == "article") {
    chip.cores = 32;
    return chip;
  }
  return std::nullopt;
}

std::string Fault::text() const {
  return fmt::format("{}:{}: block {} {}: {}", file, line, block, core, what);
}

namespace {
std::map<std::string, Kernel, std::less<>>& kernels() {
  static std::map<std::string, Kernel, std::less<>> registered;
  return registered;
}
}  // namespace

void register_kernel(std::string_view name, Kernel kernel) {
  kernels()[std::string(name)] = kernel;
}

Kernel find_kernel(std::string_view name) {
  const auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : found->second;
}

Device::Device(Options options) : machine_(std::make_unique<Machine>(std::move(options))) {}
Device::~Device() = default;

void* Device::Allocate(uint64_t bytes) { return machine_->memory().Allocate(bytes); }

void Device::Free(void* memory) {
  WEFT_CHECK(memory == nullptr || TryFree(memory), "{} is not memory of this device", memory);
}

bool Device::TryFree(void* memory) { return machine_->memory().Remove(memory, true); }

void Device::Register(void* memory, uint64_t bytes) { machine_->memory().Add(memory, bytes); }
bool Device::TryUnregister(void* memory) { return machine_->memory().Remove(memory, false); }
bool Device::Owns(const void* memory, uint64_t bytes) const {
  return machine_->memory().Find(memory, bytes) != nullptr;
}

void Device::Copy(void* target, const void* source, uint64_t bytes) {
  if (bytes == 0) return;
  machine_->HostReads(source, bytes);
  std::memcpy(target, source, bytes);
  machine_->HostWrites(target, bytes);
}

void Device::QueueCopy(void* target, const void* source, uint64_t bytes) {
  machine_->QueueCopy(target, source, bytes);
}

void Device::Launch(Kernel kernel, int blocks, std::span<const std::byte> arguments) {
  WEFT_CHECK(kernel != nullptr && blocks > 0, "a launch needs a kernel and blocks");
  machine_->Launch(kernel, blocks, arguments);
}

Outcome Device::Run() { return machine_->Run(~uint64_t{0}, false); }
Outcome Device::Step(uint64_t instructions) { return machine_->Run(instructions, true); }

const std::optional<Fault>& Device::fault() const { return machine_->fault; }
void Device::Reset() { machine_->Reset(); }
void Device::set_listener(Listener* listener) { machine_->listener = listener; }
void Device::set_injection(std::optional<Injection> injection) { machine_->injection = injection; }
const Options& Device::options() const { return machine_->options(); }
const Counters& Device::counters(int core, int sub_core) const {
  return machine_->sub_core(core, sub_core).counters();
}
uint64_t Device::instructions() const { return machine_->instructions; }
uint64_t Device::launches() const { return machine_->launches; }

}  // namespace weft::twin
