/**
 * A layered layout from left to right: layers by the longest path, eight median sweeps against crossings, then places.
 * It takes milliseconds for a thousand parts, where general libraries take seconds.
 */

export interface Box {
  id: string;
  width: number;
  height: number;
  /** The boxes inside: its size follows from them. */
  boxes?: Box[];
  edges?: Edge[];
}

export interface Edge {
  from: string;
  to: string;
}

export interface Placed {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const GAP_X = 44;
export const GAP_Y = 16;
/** Inside a group: the space around, and for its name above. */
export const PADDING = 12;
export const TITLE = 34;
const SWEEPS = 8;

/** The place of each box, and of those inside it, from the upper left corner on. */
export function layout(boxes: readonly Box[], edges: readonly Edge[]): Map<string, Placed> {
  const places = new Map<string, Placed>();
  place(boxes, edges, places, 0, 0);
  return places;
}

/** Place boxes from a corner on; returns the size of all. */
function place(
  boxes: readonly Box[],
  edges: readonly Edge[],
  places: Map<string, Placed>,
  left: number,
  top: number,
): { width: number; height: number } {
  const inner = new Map<string, Map<string, Placed>>();
  const sizes = boxes.map((box) => {
    if (!box.boxes?.length) return { width: box.width, height: box.height };
    const own = new Map<string, Placed>();
    const size = place(box.boxes, box.edges ?? [], own, PADDING, TITLE);
    inner.set(box.id, own);
    return { width: Math.max(box.width, size.width + 2 * PADDING), height: size.height + TITLE + PADDING };
  });
  const { xs, ys, width, height } = layered(boxes, edges, sizes);
  boxes.forEach((box, at) => {
    const [x, y] = [left + (xs[at] ?? 0), top + (ys[at] ?? 0)];
    places.set(box.id, { x, y, ...(sizes[at] ?? { width: 0, height: 0 }) });
    for (const [id, found] of inner.get(box.id) ?? []) places.set(id, { ...found, x: found.x + x, y: found.y + y });
  });
  return { width, height };
}

function layered(boxes: readonly Box[], edges: readonly Edge[], sizes: readonly { width: number; height: number }[]) {
  const count = boxes.length;
  const index = new Map(boxes.map((box, at) => [box.id, at]));
  const after: number[][] = boxes.map(() => []);
  const before: number[][] = boxes.map(() => []);
  for (const edge of edges) {
    const [from, to] = [index.get(edge.from), index.get(edge.to)];
    if (from === undefined || to === undefined || from === to) continue;
    after[from]?.push(to);
    before[to]?.push(from);
  }
  const rank = ranks(count, before, after);
  const layers: number[][] = [];
  for (let at = 0; at < count; at++) {
    const layer = rank[at] ?? 0;
    const found = layers[layer];
    if (found) found.push(at);
    else layers[layer] = [at];
  }
  const order = sorted(layers, before, after, count);

  const xs = new Array<number>(count).fill(0);
  let x = 0;
  for (const layer of layers) {
    const width = layer.reduce((most, at) => Math.max(most, sizes[at]?.width ?? 0), 0);
    for (const at of layer) xs[at] = x;
    x += width + GAP_X;
  }
  const ys = heights(layers, before, after, order, sizes);
  const least = ys.reduce((found, y) => Math.min(found, y), Number.POSITIVE_INFINITY);
  const most = ys.reduce((found, y, at) => Math.max(found, y + (sizes[at]?.height ?? 0)), 0);
  return { xs, ys: ys.map((y) => y - least), width: Math.max(0, x - GAP_X), height: count ? most - least : 0 };
}

/** The length of the longest path to each; a circle is cut where it is first closed. */
function ranks(count: number, before: number[][], after: number[][]): number[] {
  const rank = new Array<number>(count).fill(0);
  const open = before.map((each) => each.length);
  const ready: number[] = [];
  for (let at = 0; at < count; at++) if (!open[at]) ready.push(at);
  for (let next = 0; next < ready.length || next < count; next++) {
    let at = ready[next];
    if (at === undefined) {
      at = open.findIndex((left) => left > 0); // only circles are left
      if (at < 0) break;
      open[at] = 0;
      ready.push(at);
    }
    for (const other of after[at] ?? []) {
      const left = open[other] ?? 0;
      if (left <= 0) continue;
      rank[other] = Math.max(rank[other] ?? 0, (rank[at] ?? 0) + 1);
      open[other] = left - 1;
      if (left === 1) ready.push(other);
    }
  }
  return rank;
}

/** Sort each layer by the median place of its neighbours, forward and backward. Returns the place of each in its layer. */
function sorted(layers: number[][], before: number[][], after: number[][], count: number): number[] {
  const order = new Array<number>(count).fill(0);
  const note = (layer: number[]) => {
    layer.forEach((at, place) => {
      order[at] = place;
    });
  };
  layers.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const neighbours = sweep % 2 ? after : before;
    const all = sweep % 2 ? layers.toReversed() : layers;
    for (const layer of all) {
      if (layer.length < 2) continue;
      const keys = new Map(
        layer.map((at) => [
          at,
          median(
            (neighbours[at] ?? []).map((each) => order[each] ?? 0),
            order[at] ?? 0,
          ),
        ]),
      );
      layer.sort((one, other) => (keys.get(one) ?? 0) - (keys.get(other) ?? 0));
      note(layer);
    }
  }
  return order;
}

function median(values: number[], otherwise: number): number {
  if (!values.length) return otherwise;
  values.sort((one, other) => one - other);
  const middle = values.length >> 1;
  return values.length % 2 ? (values[middle] ?? 0) : ((values[middle - 1] ?? 0) + (values[middle] ?? 0)) / 2;
}

/** The upper edge of each: as near as possible to the middle of its neighbours, without overlap and in order. */
function heights(
  layers: number[][],
  before: number[][],
  after: number[][],
  order: number[],
  sizes: readonly { height: number }[],
): number[] {
  const ys = new Array<number>(order.length).fill(0);
  const height = (at: number) => sizes[at]?.height ?? 0;
  const middle = (at: number) => (ys[at] ?? 0) + height(at) / 2;
  for (const layer of layers) {
    let y = -layer.reduce((sum, at) => sum + height(at) + GAP_Y, -GAP_Y) / 2;
    for (const at of layer) {
      ys[at] = y;
      y += height(at) + GAP_Y;
    }
  }
  for (let sweep = 0; sweep < 4; sweep++) {
    const neighbours = sweep % 2 ? after : before;
    for (const layer of sweep % 2 ? layers.toReversed() : layers) align(layer, neighbours, ys, height, middle);
  }
  return ys;
}

/** Move the boxes of a layer to where they want to be: runs of boxes that push each other move as one. */
function align(
  layer: number[],
  neighbours: number[][],
  ys: number[],
  height: (at: number) => number,
  middle: (at: number) => number,
): void {
  const runs: { members: number[]; sum: number; size: number; y: number }[] = [];
  for (const at of layer) {
    const wanted = median((neighbours[at] ?? []).map(middle), middle(at)) - height(at) / 2;
    let run = { members: [at], sum: wanted, size: height(at) + GAP_Y, y: wanted };
    for (let last = runs.at(-1); last && last.y + last.size > run.y; last = runs.at(-1)) {
      runs.pop();
      const members = [...last.members, ...run.members];
      const sum = last.sum + run.sum - last.size * run.members.length;
      run = { members, sum, size: last.size + run.size, y: sum / members.length };
    }
    runs.push(run);
  }
  for (const run of runs) {
    let { y } = run;
    for (const at of run.members) {
      ys[at] = y;
      y += height(at) + GAP_Y;
    }
  }
}
