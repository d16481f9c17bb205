#!/usr/bin/env python3
# ruff: noqa: C901, E501
"""Figures of a Python package's structure, from its source alone.

    python scripts/structure.py src/wakeful [--small] [--cycles]

Prints files, lines, modules with one importer, import lines, import cycles, methods of the store protocols and function lengths.
--small lists modules under 80 lines with one importer; --cycles lists the modules of each cycle.
"""

import ast
import collections
import pathlib
import sys


def modules(root: pathlib.Path) -> dict[str, tuple[pathlib.Path, str, ast.Module, bool]]:
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        text = path.read_text()
        found[name] = (path, text, ast.parse(text), is_package)
    return found


def imports(name, tree, is_package, known):
    """Modules of the package that this one imports, type-checking imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if is_package else name.split(".")[:-1]
                base = ".".join(parts[: len(parts) - node.level + 1] + ([node.module] if node.module else []))
            wanted = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
        else:
            continue
        for one in wanted:
            while one and one not in known:
                one = one.rpartition(".")[0]
            if one and one != name:
                yield one


def cycles(edges):
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in edges[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = []
            while True:
                w = stack.pop()
                on.discard(w)
                group.append(w)
                if w == v:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(20_000)
    for v in list(edges):
        if v not in index:
            visit(v)
    return sorted(found, key=len, reverse=True)


def main() -> None:
    root = pathlib.Path(sys.argv[1]).resolve()
    known = modules(root)
    edges = {name: set(imports(name, tree, pkg, known)) for name, (_, _, tree, pkg) in known.items()}
    importers = collections.Counter(one for targets in edges.values() for one in targets)
    lines = {name: text.count("\n") for name, (_, text, _, _) in known.items()}
    import_lines = sum(
        node.end_lineno - node.lineno + 1
        for _, _, tree, _ in known.values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    )
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for _, _, tree, _ in known.values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    seam = 0
    for name, (_, _, tree, _) in known.items():
        if name.startswith("wakeful.store") and ".sqlite" not in name and ".postgres" not in name:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and any("Protocol" in ast.dump(base) for base in node.bases):
                    seam += sum(isinstance(item, ast.AsyncFunctionDef) for item in node.body)
    sql = sum(path.read_text().count("\n") for path in root.rglob("*.sql"))
    packages = collections.Counter(name.split(".")[1] if name.count(".") else "(top)" for name in known)
    tests = {name for name in known if name.startswith("wakeful.testing")}
    single = [name for name in known if importers[name] == 1 and not known[name][3]]
    small = [name for name in single if lines[name] < 80]
    groups = cycles(edges)
    total = sum(lines.values())
    print(
        f"files {len(known)}, of which testing {len(tests)}; lines {total} py + {sql} sql; files at the top level {sum(1 for n in known if n.count('.') == 1 and not known[n][3])}"
    )
    print("files per package: " + ", ".join(f"{name} {count}" for name, count in packages.most_common(16)))
    print(f"modules with one importer {len(single)}, of which under 80 lines {len(small)}")
    print(f"import lines {import_lines} = {100 * import_lines / total:.1f} %")
    print(
        f"import cycles {len(groups)}, modules in them {sum(map(len, groups))}, largest {max(map(len, groups), default=0)}"
    )
    print(f"async methods of the store protocols {seam}")
    print(
        f"functions {len(lengths)}: median {lengths[len(lengths) // 2]}, p90 {lengths[int(len(lengths) * 0.9)]}, max {lengths[-1]}"
    )
    print(f"files over 800 lines: {[n for n in known if lines[n] > 800]}")
    if "--small" in sys.argv:
        print("\n".join(f"  {lines[name]:4} {name}" for name in sorted(small)))
    if "--cycles" in sys.argv:
        for group in groups:
            print("  cycle:", ", ".join(group))


main()
