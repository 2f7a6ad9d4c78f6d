import type { Axis } from "@/model/axis";
import { ticks } from "@/model/axis";
import { duration, moment, preciseClock, type Zone } from "@/model/durations";
import type { Mark } from "@/model/timeline";
import { MARKS, SPANS } from "./looks";

export const HEAD = 56;

/** The axis: times, collapsed gaps with their reason and length, and what happened to the run. */
export function Head({
  axis,
  marks,
  zone,
  now,
  left,
  press,
}: {
  axis: Axis;
  marks: readonly Mark[];
  zone: Zone;
  now: number;
  left: number;
  press: (seq: number) => void;
}) {
  const span = axis.to - axis.from - axis.gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const text = (time: number) =>
    span < 5_000 ? preciseClock(time, zone).slice(0, span < 500 ? undefined : -1) : moment(time, now, zone);
  return (
    <div
      className="pointer-events-none absolute inset-y-0 *:pointer-events-none [&>:is(button,div)]:pointer-events-auto"
      style={{ left, width: axis.width }}
    >
      {axis.gaps.map((gap) => {
        const { icon: Icon, colour, text: why } = SPANS[gap.kind];
        return (
          <div
            key={gap.from}
            title={`${why}: ${duration(Math.min(gap.to, now) - gap.from)}, collapsed`}
            className="absolute inset-y-0 flex flex-col items-center justify-end gap-0.5 overflow-hidden border-x border-dashed border-line-strong bg-sunken pb-1 text-meta leading-4"
            style={{ left: gap.x, width: gap.width }}
          >
            <Icon size={14} aria-label={why} className={colour} />
            {gap.width >= 44 ? (
              <span className="whitespace-nowrap text-text-2">{duration(Math.min(gap.to, now) - gap.from)}</span>
            ) : null}
          </div>
        );
      })}
      {ticks(axis, span < 5_000 ? 96 : 72).map((time) => (
        <span
          key={time}
          className="absolute bottom-1 border-l border-line pl-1 text-meta leading-4 whitespace-nowrap text-text-2"
          style={{ left: axis.x(time) }}
        >
          {text(time)}
        </span>
      ))}
      {spread(marks, axis).map(({ mark, x }) => {
        const { icon: Icon, hue, text: what } = MARKS[mark.kind];
        return (
          <button
            key={mark.seq}
            type="button"
            aria-label={`${what}, event ${mark.seq}`}
            title={mark.text}
            onClick={() => press(mark.seq)}
            className={`absolute top-1.5 grid size-5 place-items-center rounded-full bg-hue-tint text-hue ${hue}`}
            style={{ left: Math.max(0, Math.min(axis.width - 20, x - 10)) }}
          >
            <Icon size={12} aria-hidden />
          </button>
        );
      })}
    </div>
  );
}

/** Marks with their place; those that would cover another one are moved aside a little, and left out if there is no space. */
function spread(marks: readonly Mark[], axis: Axis): { mark: Mark; x: number }[] {
  const found: { mark: Mark; x: number }[] = [];
  let last = Number.NEGATIVE_INFINITY;
  for (const mark of marks) {
    if (mark.time < axis.from || mark.time > axis.to) continue;
    const x = Math.max(axis.x(mark.time), last + 21);
    if (x - axis.x(mark.time) > 40) continue;
    found.push({ mark, x });
    last = x;
  }
  return found;
}

/** The gaps and marks behind the rows. */
export function Backdrop({
  axis,
  marks,
  left,
  height,
}: {
  axis: Axis;
  marks: readonly Mark[];
  left: number;
  height: number;
}) {
  return (
    <div aria-hidden className="pointer-events-none absolute top-0" style={{ left, width: axis.width, height }}>
      {axis.gaps.map((gap) => (
        <div
          key={gap.from}
          className="absolute inset-y-0 border-x border-dashed border-line-strong bg-sunken"
          style={{ left: gap.x, width: gap.width }}
        />
      ))}
      {marks.map((mark) =>
        mark.time < axis.from || mark.time > axis.to ? null : (
          <div
            key={mark.seq}
            className={`absolute inset-y-0 w-px bg-hue-bar ${MARKS[mark.kind].hue}`}
            style={{ left: axis.x(mark.time) }}
          />
        ),
      )}
    </div>
  );
}
