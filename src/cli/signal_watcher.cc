#include "cli/signal_watcher.h"

#include <pthread.h>

namespace weft {
namespace {

constexpr int kLeave = SIGUSR2;  // sent by the destructor to its own thread

}  // namespace

SignalWatcher::SignalWatcher(std::initializer_list<int> signals, std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)) {
  sigemptyset(&watched_);
  for (const int signal : signals) sigaddset(&watched_, signal);
  sigaddset(&watched_, kLeave);
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  thread_ = std::thread([this] { watch(); });
}

SignalWatcher::~SignalWatcher() {
  pthread_kill(thread_.native_handle(), kLeave);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalWatcher::watch() {
  int signal = 0;
  while (sigwait(&watched_, &signal) == 0 && signal != kLeave) on_signal_(signal);
}

}  // namespace weft
