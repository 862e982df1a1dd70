#include <csignal>
#include <string>
#include <vector>

#include "cli/commands.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE,
              SIG_IGN);  // a closed pipe is an error of the write, not the end of the process
  return weft::weft_main(std::vector<std::string>(argv + 1, argv + argc));
}
