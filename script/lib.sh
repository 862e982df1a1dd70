# Shared by the scripts beside it; they source it. Plain bash: on a bare system nothing else is there yet.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# What the program needs to be built and run, and what only the tests need.
program_packages=(ca-certificates cmake g++ ninja-build libhwy-dev libboost1.81-dev nlohmann-json3-dev
  prometheus-cpp-dev libspdlog-dev libfmt-dev libcli11-dev libtomlplusplus-dev python3 python3-venv)
test_packages=(libgtest-dev libgmock-dev clang-19 llvm-19 libclang-rt-19-dev clang-format-19 clang-tidy-19)

# The tokenizer's Rust crates need cargo 1.87 or newer. Debian 12 has one as cargo-web.
cargo_is_new_enough() {
  local version
  version=$(cargo --version 2>/dev/null) && rustc --version >/dev/null 2>&1 || return 1
  [[ $version =~ ^cargo\ ([0-9]+)\.([0-9]+) ]] || return 1
  ((BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= 87))
}

# missing_packages NAME...: prints those that are not installed.
missing_packages() {
  local installed name
  installed=$(dpkg-query --show --showformat='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null || true)
  for name in "$@"; do
    [[ $'\n'$installed$'\n' == *$'\nii  '$name$'\n'* ]] || printf '%s\n' "$name"
  done
}

# install_packages program|test: installs the packages that are missing. Without root it prints what an administrator has to run.
install_packages() {
  local wanted=("${program_packages[@]}") missing
  [[ $1 == test ]] && wanted+=("${test_packages[@]}")
  cargo_is_new_enough || wanted+=(cargo-web rustc-web)
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || fail "no apt-get here; install the equivalents of: ${missing[*]}"
  if ((EUID != 0)); then
    printf 'Packages are missing. An administrator has to run this line once; then run the script again:\n\n' >&2
    printf '  apt-get update && apt-get install -y --no-install-recommends %s\n\n' "${missing[*]}" >&2
    exit 1
  fi
  say "Installing ${#missing[@]} packages: ${missing[*]}"
  apt-get update -q || fail "apt-get update failed"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install: ${missing[*]}"
  hash -r
  cargo_is_new_enough || fail "cargo 1.87 or newer is needed; found: $(cargo --version 2>&1 | head -n 1)"
}

# build_program: build/release/weft, without the tests unless they are configured already.
build_program() {
  [[ -f $root/build/release/CMakeCache.txt ]] || (cd "$root" && cmake --preset release -DWEFT_TESTS=OFF)
  cmake --build "$root/build/release" --target weft
}
