#!/usr/bin/env python3
"""Holds the code to the folder table of docs/architecture.md.

A folder under src/ includes headers only of itself and of the folders in its line, and its library links exactly
these. The rows are ordered: a folder may use only folders above it, so there can be no cycle. A second table says what
the folders of ascend/ may use. main() and the environment belong to tools/.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/', re.MULTILINE)
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
LIBRARY = re.compile(r"weft_library\((\w+)([^)]*)\)")


def folder_table(text, title="folder"):
    """The table as {folder: set of folders it may use}, in order."""
    body = text.partition(f"| {title} | holds | may use |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([a-z]+) \| [^|]* \| *([a-z, ]*?) *\|$", body, re.MULTILINE)
    return {folder: {f.strip() for f in uses.split(",") if f.strip()} for folder, uses in rows}


MAP = (ROOT / "docs/architecture.md").read_text()
TABLE = folder_table(MAP)
ASCEND = folder_table(MAP, "folder of ascend/")
# Which folders of src/ use which of ascend/; the twin's headers stand for the toolkit's, AscendCL's among them.
ASCEND_USERS = {"device": {"kernels"}, "cli": set(ASCEND)}
ASCENDCL = ROOT / "ascend/twin/acl/acl.h"


def sources_of(folder):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cc", ".cpp"))


SOURCES = sources_of("src")


def included_file(name, path):
    """The file of this project that `path` includes by `name`, found as the compiler does."""
    folders = [path.parent, ROOT, ROOT / "src", ROOT / "ascend", ROOT / "ascend/twin"]
    if path.is_relative_to(ROOT / "ascend"):
        folders = [path.parent, ROOT / "ascend", ROOT / "ascend/twin", ROOT / "src", ROOT]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def library_of(folder):
    """The folders that src/<folder>/CMakeLists.txt links: (by the library, by its tests)."""
    text = re.sub(r"#.*", "", (ROOT / "src" / folder / "CMakeLists.txt").read_text())
    match = LIBRARY.search(text)
    assert match and match[1] == folder, f"src/{folder}/CMakeLists.txt has no weft_library({folder} ...)"
    deps, _, test_deps = match[2].partition("TEST_DEPS")
    return tuple(set(re.findall(r"\bweft_(\w+)", part)) for part in (deps, test_deps))


class IncludeDirection(unittest.TestCase):
    maxDiff = None

    def test_table_names_every_folder_in_order(self):
        folders = {p.name for p in (ROOT / "src").iterdir() if p.is_dir()}
        self.assertEqual(set(TABLE), folders)
        above = set()
        for folder, uses in TABLE.items():
            self.assertLessEqual(uses, above, f"{folder} may use only folders above its line")
            above.add(folder)

    def test_includes(self):
        wrong = []
        for path in SOURCES:
            folder = path.relative_to(ROOT / "src").parts[0]
            allowed = {folder} | TABLE[folder]
            if path.name.endswith("_test.cc"):
                allowed |= library_of(folder)[1]
            for used in INCLUDE.findall(path.read_text()):
                if used in TABLE and used not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} includes {used}/, not in the line of {folder}")
        self.assertEqual(wrong, [])

    def test_folders_of_ascend(self):
        self.assertEqual(set(ASCEND), {p.name for p in (ROOT / "ascend").iterdir() if p.is_dir()})
        wrong = []
        for path in sources_of("ascend") + SOURCES:
            if path.stem.endswith(("_test", "_testing")) or path.name == "test_driver.h":
                continue
            tree, folder = path.relative_to(ROOT).parts[:2]
            for include in ANY_INCLUDE.findall(path.read_text()):
                used = included_file(include, path)
                if used is None or used == ASCENDCL:
                    continue
                used_tree, used_folder = used.relative_to(ROOT).parts[:2]
                if (used_tree, used_folder) == (tree, folder) or (tree, used_tree) == ("src", "src"):
                    continue
                allowed = ASCEND[folder] if tree == "ascend" else ASCEND_USERS.get(folder, set())
                # A folder of src/ and one of ascend/ have one name: kernels.
                if used_folder not in allowed or (used_tree == "src" and used_folder in ASCEND):
                    wrong.append(f"{path.relative_to(ROOT)} includes {include}")
        self.assertEqual(wrong, [])

    def test_libraries_link_their_line(self):
        for folder, uses in TABLE.items():
            self.assertEqual(library_of(folder)[0], uses, f"src/{folder}/CMakeLists.txt")

    def test_main_and_environment_belong_to_tools(self):
        wrong = []
        for path in SOURCES:
            code = re.sub(r"//.*", "", path.read_text())
            if re.search(r"^int main\(", code, re.MULTILINE) or re.search(r"\b(secure_)?getenv\(", code):
                wrong.append(str(path.relative_to(ROOT)))
        self.assertEqual(wrong, [])

    def test_no_algorithm_that_clang_refuses(self):
        """libstdc++ 12 marks what these call as deprecated, which is an error of clang's build, but not of g++'s."""
        wrong = []
        for path in SOURCES + sources_of("ascend"):
            if re.search(r"\b(stable_sort|stable_partition|inplace_merge)\(", path.read_text()):
                wrong.append(str(path.relative_to(ROOT)))
        self.assertEqual(wrong, [])


class FolderTable(unittest.TestCase):
    def test_parses_rows_and_empty_lists(self):
        text = (
            "| folder | holds | may use |\n|---|---|---|\n"
            "| a | x, y | |\n| b | z | a |\n| c | w | b, a |\n\n"
            "| other | table | here |\n|---|---|---|\n| d | x | a |\n"
        )
        self.assertEqual(folder_table(text), {"a": set(), "b": {"a"}, "c": {"b", "a"}})


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)
