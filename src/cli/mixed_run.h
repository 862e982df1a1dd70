#pragma once
// Plays the phases of a workload and writes down when each token came.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/mixed_player.h"
#include "cli/mixed_workload.h"
#include "engine/engine.h"

namespace weft {

// What was seen of a request within one phase.
struct RequestRecord {
  bool stream = false;  // a chat stream
  bool continued =
      false;         // began in an earlier phase, or before the phase; tokens[0] came before it
  bool cut = false;  // goes on after the phase
  int prompt = 0;    // tokens
  TimePoint sent{};
  std::vector<TimePoint> tokens;
  std::string error;

  bool has_first_token() const { return !continued && !tokens.empty(); }
  Duration to_first_token() const { return tokens.front() - sent; }
};

struct PhaseRecord {
  std::string name;
  TimePoint begin{};  // streams run
  TimePoint start{};  // arrivals begin
  TimePoint end{};    // the last request but chat streams has ended
  int streams = 0;    // chat streams at a time; one that ended has its next in a record of its own
  std::vector<RequestRecord> requests;
  std::optional<EngineStats> before;  // where the engine can be asked
  std::optional<EngineStats> after;
};

class MixedRun {
 public:
  struct Options {
    uint64_t seed = 1;
    uint64_t first_index = 0;                     // of random_prompt(); each request takes the next
    std::vector<TokenId> vocabulary;              // of prompts
    Duration patience = std::chrono::minutes(5);  // without a token: it hangs
  };

  // The player must outlive it. `stats` asks the engine, where it can be asked. on_work hears of
  // tokens of prompts read and of outputs, but for chat streams: work_of() in all.
  MixedRun(Player& player, Options options, std::function<EngineStats()> stats = {},
           std::function<void(uint64_t)> on_work = {});
  ~MixedRun();  // ends the chat streams

  // Chat streams of the phase before go on. An error if a chat stream fails or nothing moves; a
  // request that fails alone is in the record.
  Result<PhaseRecord> play(const MixedPhase& phase);

 private:
  struct Live {
    RequestRecord record;
    int output = 0;
  };

  Status adjust_streams(int count);
  Status send_stream();
  Status send(int prompt, int output, bool stream);
  // Handles events until `done` holds or the deadline has come.
  Status pump(TimePoint deadline, const std::function<bool()>& done);
  Status on_event(const PlayerEvent& event);
  Status on_finished(Live live, const PlayerEvent& event);
  bool streams_run() const;
  int in_flight() const;  // but for chat streams
  // Until each chat stream has a token.
  Status await_streams();
  void begin_record();
  void count_work(uint64_t tokens);

  Player& player_;
  Options options_;
  std::function<EngineStats()> stats_;
  std::function<void(uint64_t)> on_work_;
  uint64_t next_id_ = 1;
  int streams_ = 0;  // as many chat streams are kept running
  int streams_sent_ = 0;
  bool awaits_streams_ = false;
  std::map<uint64_t, Live> live_;
  std::vector<RequestRecord> ended_;  // in this phase
};

}  // namespace weft
