import { describe, expect, it } from "vitest";
import { closedGroups, edgesOf, graphOf, sizeOf } from "./graph";
import { type Box, type Edge, layout } from "./layout";
import type { Row } from "./rows";
import type { Attempt } from "./timeline";

/** A row that was at work from one event to another. */
function row(id: string, first: number, last: number | null, rows: Row[] = [], kind: Row["kind"] = "node"): Row {
  const bar = {
    node: id,
    first,
    last: last ?? first,
    ended: last,
    scheduled: first,
    started: first,
  } as unknown as Attempt;
  return { id, kind, label: id, detail: "", depth: 0, attempts: rows.length ? [] : [bar], waits: [], rows, first };
}

const edges = (rows: Row[]) => edgesOf(rows).map(({ from, to }) => `${from}>${to}`);

describe("what led to what", () => {
  it("is a chain where one begins when another has ended", () => {
    expect(edges([row("a", 1, 3), row("b", 4, 6), row("c", 7, null)])).toEqual(["a>b", "b>c"]);
  });

  it("spreads and joins", () => {
    expect(edges([row("a", 1, 3), row("b", 4, 9), row("c", 5, 8), row("d", 10, 12)]).sort()).toEqual([
      "a>b",
      "a>c",
      "b>d",
      "c>d",
    ]);
  });

  it("does not draw all lines between many and many", () => {
    const first = Array.from({ length: 10 }, (_, at) => row(`a${at}`, 1 + at, 20 + at));
    const second = Array.from({ length: 10 }, (_, at) => row(`b${at}`, 40 + at, 60 + at));
    const found = edges([...first, ...second]);
    expect(found.filter((edge) => edge.endsWith(">b0"))).toHaveLength(10);
    expect(found.filter((edge) => edge.endsWith(">b7"))).toEqual(["a7>b7"]);
  });

  it("keeps chains apart that run beside each other", () => {
    const rows = [row("a1", 1, 5), row("b1", 2, 8), row("a2", 6, 12), row("b2", 9, 14)];
    expect(edges(rows).sort()).toEqual(["a1>a2", "b1>b2"]);
  });

  it("has no edge from what is still at work", () => {
    expect(edges([row("a", 1, null), row("b", 3, 5)])).toEqual([]);
  });

  it("does the same inside a group", () => {
    const group = row("g", 4, 9, [row("g/x", 4, 6), row("g/y", 7, 9)], "group");
    const graph = graphOf([row("a", 1, 3), group], () => true);
    expect(graph.edges).toEqual([{ from: "a", to: "g" }]);
    expect(graph.parts[1]?.edges).toEqual([{ from: "g/x", to: "g/y" }]);
    expect(sizeOf(graph)).toBe(4);
  });
});

it("closes the largest groups until the rest can be drawn, and maps always", () => {
  const many = (name: string, count: number, kind: Row["kind"]) =>
    row(
      name,
      1,
      9,
      Array.from({ length: count }, (_, at) => row(`${name}${at}`, 1, 9)),
      kind,
    );
  const rows = [many("small", 10, "group"), many("large", 200, "group"), many("map", 50, "map")];
  expect([...closedGroups(rows, 150, new Map())].sort()).toEqual(["large", "map"]);
  expect(
    [
      ...closedGroups(
        rows,
        150,
        new Map([
          ["large", true],
          ["small", false],
        ]),
      ),
    ].sort(),
  ).toEqual(["map", "small"]);
  expect([...closedGroups(rows, 1000, new Map())]).toEqual(["map"]);
});

describe("the layout", () => {
  const box = (id: string, width = 100, height = 40): Box => ({ id, width, height });
  const overlaps = (places: Map<string, { x: number; y: number; width: number; height: number }>) => {
    const all = [...places.values()].sort((one, other) => one.x - other.x);
    return all.some((one, at) =>
      all
        .slice(at + 1)
        .some(
          (other) =>
            one.x < other.x + other.width &&
            other.x < one.x + one.width &&
            one.y < other.y + other.height &&
            other.y < one.y + one.height,
        ),
    );
  };

  it("puts what follows to the right, and a line on one height", () => {
    const places = layout(
      ["a", "b", "c"].map((id) => box(id)),
      [
        { from: "a", to: "b" },
        { from: "b", to: "c" },
      ],
    );
    const [a, b, c] = ["a", "b", "c"].map((id) => places.get(id));
    expect((a?.x ?? 0) < (b?.x ?? 0) && (b?.x ?? 0) < (c?.x ?? 0)).toBe(true);
    expect(new Set([a?.y, b?.y, c?.y]).size).toBe(1);
  });

  it("puts a fork between its ends, without overlap", () => {
    const ids = ["a", "b", "c", "d", "e"];
    const fork: Edge[] = ["b", "c", "d"].flatMap((id) => [
      { from: "a", to: id },
      { from: id, to: "e" },
    ]);
    const places = layout(
      ids.map((id) => box(id)),
      fork,
    );
    expect(overlaps(places)).toBe(false);
    expect(places.get("a")?.y).toBe(places.get("c")?.y);
    expect(places.get("e")?.y).toBe(places.get("c")?.y);
  });

  it("holds the parts of a group inside it", () => {
    const group: Box = { id: "g", width: 80, height: 40, boxes: [box("x"), box("y")], edges: [] };
    const places = layout([box("a"), group], [{ from: "a", to: "g" }]);
    const outer = places.get("g");
    for (const id of ["x", "y"]) {
      const inner = places.get(id);
      if (!outer || !inner) throw new Error("not placed");
      expect(inner.x > outer.x && inner.y > outer.y).toBe(true);
      expect(inner.x + inner.width < outer.x + outer.width && inner.y + inner.height < outer.y + outer.height).toBe(
        true,
      );
    }
  });

  it("ends also if the edges go round", () => {
    expect(
      layout(
        [box("a"), box("b")],
        [
          { from: "a", to: "b" },
          { from: "b", to: "a" },
        ],
      ).size,
    ).toBe(2);
  });

  it("places 5,000 parts, and nothing overlaps", () => {
    const boxes = Array.from({ length: 5000 }, (_, at) => box(`n${at}`, 80 + (at % 7) * 10, 40));
    const lines: Edge[] = [];
    for (let at = 20; at < 5000; at++) {
      lines.push({ from: `n${at - 20}`, to: `n${at}` });
      if (at % 3 === 0)
        lines.push({ from: `n${at - 20 + ((at * 7) % 19) - 9 < 0 ? 0 : at - 20 + ((at * 7) % 19) - 9}`, to: `n${at}` });
    }
    const places = layout(boxes, lines);
    expect(places.size).toBe(5000);
    expect(overlaps(new Map([...places].slice(0, 600)))).toBe(false);
  });
});
