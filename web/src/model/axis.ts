/** The axis of the timeline: time to pixels, with idle time collapsed to breaks of a fixed width. */

import type { Span } from "./timeline";

export interface Gap extends Span {
  /** In pixels. */
  x: number;
  width: number;
}

export interface Axis {
  from: number;
  to: number;
  width: number;
  gaps: Gap[];
  x: (time: number) => number;
  time: (x: number) => number;
}

/** A gap is collapsed if it is longer than this part of the window, or than this many milliseconds. */
const PART = 0.05;
const LONG_MS = 10_000;
const SHORT_MS = 200;
const MOST = 14;
const GAP_PX = 76;

const IDLE = new Set<Span["kind"]>([
  "queued",
  "person",
  "timer",
  "retry",
  "signal",
  "nobody",
  "paused",
  "held",
  "failed",
  "cancelled",
  "completed",
]);

/** The spans in a window in which nothing was at work, long enough to be collapsed; the longest, if there are many. */
export function idleGaps(spans: readonly Span[], from: number, to: number, most = MOST): Span[] {
  const idle = spans
    .filter((span) => IDLE.has(span.kind) && span.to > from && span.from < to)
    .map((span) => ({ ...span, from: Math.max(from, span.from), to: Math.min(to, span.to) }));
  let window = to - from;
  let joined: Span[] = [];
  for (let pass = 0; pass < 2; pass++) {
    const long = Math.max(SHORT_MS, Math.min(LONG_MS, window * PART));
    joined = idle.filter((span) => span.to - span.from >= (span.kind === "retry" ? LONG_MS : long));
    window = joined.reduce((left, span) => left - (span.to - span.from), to - from); // what is left is the window that one sees
  }
  if (joined.length <= most) return joined;
  const longest = new Set(joined.toSorted((one, other) => other.to - other.from - (one.to - one.from)).slice(0, most));
  return joined.filter((gap) => longest.has(gap));
}

/** An axis of `width` pixels from one time to another, with these gaps collapsed. */
export function axisOf(from: number, to: number, width: number, gaps: readonly Span[] = [], gapWidth = GAP_PX): Axis {
  const size = gaps.length ? Math.min(gapWidth, (width * 0.6) / gaps.length) : 0;
  const scaleFor = (some: readonly Span[]) => {
    const idle = some.reduce((sum, gap) => sum + gap.to - gap.from, 0);
    return (width - size * some.length) / Math.max(1e-6, to - from - idle);
  };
  // a window in which there is nothing but idle time is shown as it is
  let collapsed = gaps.reduce((left, gap) => left - (gap.to - gap.from), to - from) > 1 ? gaps : [];
  let scale = scaleFor(collapsed);
  for (let before = -1; collapsed.length !== before; ) {
    before = collapsed.length;
    collapsed = collapsed.filter((gap) => (gap.to - gap.from) * scale > size); // a break must not be wider than its time
    scale = scaleFor(collapsed);
  }
  const placed: Gap[] = [];
  // knots: time and pixel of the begin and the end of each gap
  const times = [from];
  const pixels = [0];
  let x = 0;
  let at = from;
  for (const gap of collapsed) {
    x += (gap.from - at) * scale;
    placed.push({ ...gap, x, width: size });
    times.push(gap.from, gap.to);
    pixels.push(x, x + size);
    x += size;
    at = gap.to;
  }
  times.push(to);
  pixels.push(width);
  return { from, to, width, gaps: placed, x: between(times, pixels), time: between(pixels, times) };
}

/** A function through the knots, straight between them; outside it is the nearest knot. */
function between(keys: readonly number[], values: readonly number[]): (key: number) => number {
  return (key) => {
    let low = 0;
    let high = keys.length - 1;
    if (key <= (keys[0] ?? 0)) return values[0] ?? 0;
    if (key >= (keys[high] ?? 0)) return values[high] ?? 0;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((keys[middle] ?? 0) <= key) low = middle;
      else high = middle;
    }
    const [k0 = 0, k1 = 0, v0 = 0, v1 = 0] = [keys[low], keys[high], values[low], values[high]];
    return k1 === k0 ? v1 : v0 + ((key - k0) / (k1 - k0)) * (v1 - v0);
  };
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  900_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
];

/** Round times to write on the axis, at least `space` pixels apart and clear of gaps. */
export function ticks(axis: Axis, space = 96): number[] {
  const idle = axis.gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const perPixel = (axis.to - axis.from - idle) / Math.max(1, axis.width);
  const step =
    STEPS_MS.find((each) => each / perPixel >= space) ?? 604_800_000 * Math.ceil((perPixel * space) / 604_800_000);
  const found: number[] = [];
  let last = Number.NEGATIVE_INFINITY;
  const stretches: [number, number][] = [];
  let from = axis.from;
  for (const gap of axis.gaps) {
    stretches.push([from, gap.from]);
    from = gap.to;
  }
  stretches.push([from, axis.to]);
  for (const [begin, end] of stretches) {
    for (let time = Math.ceil(begin / step) * step; time < end; time += step) {
      const x = axis.x(time);
      if (x - last < space || axis.width - x < space / 2) continue;
      if (axis.gaps.some((gap) => x > gap.x - space && x < gap.x + gap.width)) continue;
      found.push(time);
      last = x;
    }
  }
  return found;
}
