#pragma once
// The seam between engine and device. The engine says what to run (quanta of passes of segments),
// the device owns everything with bytes in it: weights, KV blocks, hidden states, logits, samplers.
//
// Thread: every function is called by the engine thread only, but where it says otherwise.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "device/sampling.h"

namespace weft {

// Prompt rows but the last are prefill class, the last prompt row and generated rows decode class,
// also when recomputed. A device whose two attention kernels differ in bits picks by it.
enum class RowClass : uint8_t { kPrefill, kDecode };

enum class Outputs : uint8_t {
  kNone,
  kLast,  // sample after the segment's last row
  kAll,   // every row: the logprob of its target; a row whose target is kSample is sampled
};
inline constexpr TokenId kSample = -1;

// Consecutive rows of one sequence within a pass.
struct Segment {
  SlotId slot = 0;
  int32_t first_position = 0;
  int32_t rows = 0;
  RowClass row_class = RowClass::kDecode;
  std::span<const TokenId> tokens;  // [rows]; empty (and rows == 1): the slot's last sample
  Outputs outputs = Outputs::kNone;
  std::span<const TokenId> targets;  // [rows] for kAll, else empty
  std::span<const BlockId> blocks;   // covers positions 0 ... first_position + rows - 1
};

// A counter on the progress board: in how many layers the keys and values of a pass are stored and
// its own attention has read them. It starts again when a pass that sends to it is started at layer
// 0, and is taken until the pass that follows has ended: that one's PassId is a number nobody else
// uses.
using BoardId = int32_t;  // 0 ... ExecutorLimits::passes - 1
inline constexpr BoardId kNoBoard = -1;

// A batch of rows on its walk through the layers. Its hidden state [rows, hidden] is kept by the
// device under `id` from the quantum that starts at layer 0 to the one that ends at the last layer,
// or until drop_pass. Any group may take it up where another left it.
using PassId = int32_t;  // 0 ... ExecutorLimits::passes - 1
struct Pass {
  PassId id = 0;
  std::vector<Segment> segments;  // the same at each of its quanta, but for drop_rows
  BoardId sends = kNoBoard;       // after a layer's attention, of which the last layer has none for
                                  // rows without outputs; does not block
  BoardId follows = kNoBoard;  // before it stores a layer's keys and values, waits until that layer
                               // was sent: by a quantum started before; or runs in that quantum

  int64_t rows() const {
    int64_t n = 0;
    for (const Segment& s : segments) n += s.rows;
    return n;
  }
};

// What a group runs between two looks at its inbox: the rows of all its passes share the matrix
// multiplications of layers [layer_begin, layer_end). Layer 0 starts with the embedding; the last
// layer ends with head and sampler.
struct Quantum {
  uint64_t id = 0;
  std::vector<const Pass*> passes;  // alive and unchanged until the quantum's completion
  int layer_begin = 0;
  int layer_end = 0;
};

struct OutputRow {
  PassId pass = 0;
  int32_t segment = 0;  // index in the pass
  int32_t row = 0;      // index in the segment
  TokenId token = -1;   // the sample, or the row's target
  bool finite = true;   // false: a logit was not a number; token and logprobs mean nothing
  float logprob = 0;    // where top_logprobs >= 0, or of a target
  float log_sum_exp =
      0;  // where logprob is set: of the row's logits, so that logprob + log_sum_exp is a raw logit
  std::vector<TokenLogprob> top;  // descending
};

struct Completion {
  uint64_t quantum = 0;
  TimePoint start{};                // when it was handed to its cores
  TimePoint end{};                  // when the last of them was done
  double busy_core_seconds = 0;     // inside operators: no barrier waits, no idling
  double barrier_core_seconds = 0;  // waiting for other cores or for the board within the quantum
  std::vector<OutputRow> outputs;
  Status status;  // a device fault: the quantum's requests have to end in error
};

// A sequence's place on the device: its sampler and the counts that penalties need.
struct SlotInit {
  SamplingParams sampling;
  uint64_t seed = 0;
  uint32_t choice = 0;  // index among the n choices of a request
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;  // tokens already generated, after preemption
};

struct ExecutorLimits {
  int slots = 0;   // sequences at once
  int passes = 0;  // passes open at once
  int rows = 0;    // rows of all passes of a quantum
  int output_rows =
      0;  // rows of a quantum that reach the head at once; more of them (kAll) are taken in turns
  int context = 0;  // longest sequence
  int blocks = 0;   // KV blocks in the pool
  // A pass of several segments takes each in as many tiles of this many rows as the longest needs;
  // 1: rows run as they are, and nothing is padded.
  int tile_rows = 1;
};

// Cores that run one quantum together. Every device has the group of all its cores. One that is
// split has two more, which share them out between prompts and running streams; all cores run a
// quantum only while neither of the two does.
enum class Group : uint8_t { kAll, kPrefill, kDecode };
inline constexpr int kGroups = 3;

// Where the time of all cores went, in core-seconds from some beginning on: two of these less one
// another add up to cores(Group::kAll) x the time between, but for the way from one to the next.
struct CoreTime {
  double operators = 0;
  double barriers = 0;  // within a quantum, for other cores or for the board
  double idle = 0;      // between quanta
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const ExecutorLimits& limits() const = 0;
  virtual int layers() const = 0;
  virtual int vocab() const = 0;
  virtual int cores(Group group) const = 0;     // 0: the device has no such group
  virtual std::string description() const = 0;  // "cpu avx512vnni, 2 threads, kv f16"

  // A slot may be opened and closed while quanta that do not name it run.
  virtual void open_slot(SlotId slot, const SlotInit& init) = 0;
  virtual void close_slot(SlotId slot) = 0;

  // Returns at once; at most one quantum per group is unfinished. Requires: all blocks, slots and
  // limits hold.
  virtual void start(Group group, const Quantum& quantum) = 0;
  // The next finished quantum of any group, into `completion`, whose storage is used again; false
  // at the deadline. Requires a started one. On a CPU the caller works as a core of the group of
  // all, so for that one the deadline only counts between quanta.
  [[nodiscard]] virtual bool wait(TimePoint deadline, Completion& completion) = 0;

  // Of a pass that no started quantum names. drop_pass forgets its hidden state; drop_rows that of
  // rows [first, first + count), and the rows behind them move up.
  virtual void drop_pass(PassId pass) = 0;
  virtual void drop_rows(PassId pass, int64_t first, int64_t count) = 0;

  // Of a group that runs a quantum, up to its start.
  virtual CoreTime core_time() const = 0;
  // When a layer last ended, for a watchdog. Any thread.
  virtual TimePoint last_layer_end() const = 0;
};

}  // namespace weft
