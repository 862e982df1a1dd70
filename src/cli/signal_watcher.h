#pragma once
// Signals as calls on a thread of their own, where any code is allowed.

#include <csignal>
#include <functional>
#include <initializer_list>
#include <thread>

namespace weft {

// Make it before any other thread, so that all inherit the blocked signals. While it lives,
// `on_signal(number)` is called for each signal instead of its usual effect; it may end the
// process. One at a time.
class SignalWatcher {
 public:
  SignalWatcher(std::initializer_list<int> signals, std::function<void(int)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void watch();

  std::function<void(int)> on_signal_;
  sigset_t watched_{};
  sigset_t before_{};
  std::thread thread_;
};

}  // namespace weft
