/**
 * The graph of a run: what ran and what led to what.
 *
 * The log of a function has no edges. One part led to another if it had ended when the other began, nothing ran between them,
 * and it did not already lead elsewhere. Groups, maps and children are parts like nodes; inside a group the rule is the same.
 */

import { barsOf, type Row } from "./rows";

export interface GraphPart {
  id: string;
  row: Row;
  /** The parts of an open group. */
  parts: GraphPart[];
  edges: GraphEdge[];
  isOpen: boolean;
}

export interface GraphEdge {
  from: string;
  to: string;
}

export interface Graph {
  parts: GraphPart[];
  edges: GraphEdge[];
}

/** Parts that lead to one part: more are not drawn. */
const MOST_EDGES = 12;
const FEW = 3;

export function graphOf(rows: readonly Row[], isOpen: (row: Row) => boolean): Graph {
  const parts = rows.map((row): GraphPart => {
    const open = row.rows.length > 0 && isOpen(row);
    const inner = open ? graphOf(row.rows, isOpen) : { parts: [], edges: [] };
    return { id: row.id, row, isOpen: open, ...inner };
  });
  return { parts, edges: edgesOf(rows) };
}

interface Life {
  id: string;
  begin: number;
  /** Infinity while it is at work. */
  end: number;
  /** To how many it led. */
  led: number;
}

/** The first and the last event of a row. */
function lifeOf(row: Row): Life {
  let begin = Number.POSITIVE_INFINITY;
  let end = 0;
  for (const bar of barsOf(row)) {
    begin = Math.min(begin, bar.first);
    const isOpen = ("from" in bar ? bar.to : bar.ended) === null;
    end = Math.max(end, isOpen ? Number.POSITIVE_INFINITY : bar.last);
  }
  return { id: row.id, begin, end, led: 0 };
}

export function edgesOf(rows: readonly Row[]): GraphEdge[] {
  const lives = rows.map(lifeOf);
  const begins = lives.toSorted((one, other) => one.begin - other.begin);
  const ends = lives.filter((life) => life.end < Number.POSITIVE_INFINITY).sort((one, other) => one.end - other.end);
  const edges: GraphEdge[] = [];
  let front: Life[] = []; // what has ended, with nothing that ran after it and has ended, too; by its end
  let next = 0;
  let newest = 0; // the latest begin of what has ended
  for (const life of begins) {
    for (let ended = ends[next]; ended && ended.end < life.begin; ended = ends[++next]) {
      newest = Math.max(newest, ended.begin);
      front.push(ended);
    }
    front = front.filter((each) => each.end > newest);
    const trigger = front.at(-1);
    if (!trigger) continue;
    const all = front.filter((each) => each === trigger || !each.led);
    // where many wait for many, all lines are drawn to the first only, and one to each of the others
    const one = all[trigger.led % all.length] ?? trigger;
    const before = trigger.led && all.length > FEW ? [one] : all.slice(-MOST_EDGES);
    for (const each of before) edges.push({ from: each.id, to: life.id });
    trigger.led += 1;
  }
  return edges;
}

/** How many parts are drawn. */
export function sizeOf(graph: Graph): number {
  return graph.parts.reduce((sum, part) => sum + 1 + sizeOf(part), 0);
}

/** Which groups to close so that at most `most` parts are drawn: the largest first. Those that were chosen stay. */
export function closedGroups(rows: readonly Row[], most: number, chosen: ReadonlyMap<string, boolean>): Set<string> {
  const closed = new Set<string>();
  const sizes: [Row, number][] = [];
  const count = (row: Row): number => {
    const isClosed = !row.rows.length || chosen.get(row.id) === false || (row.kind === "map" && !chosen.get(row.id));
    if (isClosed) {
      if (row.rows.length) closed.add(row.id);
      return 1;
    }
    const size = row.rows.reduce((sum, each) => sum + count(each), 1);
    if (!chosen.get(row.id)) sizes.push([row, size - 1]);
    return size;
  };
  let all = rows.reduce((sum, row) => sum + count(row), 0);
  sizes.sort((one, other) => other[1] - one[1]);
  for (const [row, size] of sizes) {
    if (all <= most) break;
    closed.add(row.id);
    all -= size;
  }
  return closed;
}
