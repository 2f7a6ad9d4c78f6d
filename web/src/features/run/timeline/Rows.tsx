import { type KeyboardEvent, memo, type RefObject } from "react";
import type { Axis } from "@/model/axis";
import type { Interval } from "@/model/events";
import type { AttemptFilter, Row } from "@/model/rows";
import { HEAD } from "./Head";
import { RowLine, type RowLineProps } from "./RowLine";
import { useVisible } from "./use-visible";

interface Props {
  /** The box that scrolls. */
  box: RefObject<HTMLElement | null>;
  rows: readonly Row[];
  axis: Axis;
  /** Now, and the last event: the rows in which nothing is at work have the latter. */
  now: number;
  last: number;
  isLive: boolean;
  intervals: readonly Interval[];
  filter: AttemptFilter;
  node: string | null;
  event: number | null;
  isOpen: (row: Row) => boolean;
  height: number;
  isNarrow: boolean;
  nameWidth: number;
  toggle: RowLineProps["toggle"];
  select: RowLineProps["select"];
  onKeyDown: (event: KeyboardEvent) => void;
}

/** The rows that can be seen. Scrolling draws only these anew, and of them only the ones that come in. */
export const Rows = memo(function Rows({
  box,
  rows,
  now,
  last,
  isLive,
  node,
  event,
  isOpen,
  onKeyDown,
  ...given
}: Props) {
  const { height } = given;
  const [first, end] = useVisible(box, rows.length, height, HEAD);
  const current = node === null ? -1 : rows.findIndex((row) => row.id === node);
  return (
    <div
      role="tree"
      tabIndex={0}
      aria-label="Nodes over time"
      aria-activedescendant={current >= first && current < end ? `row-${current}` : undefined}
      onKeyDown={onKeyDown}
      className="absolute inset-0 -outline-offset-2"
    >
      {rows.slice(first, end).map((row, at) => (
        <RowLine
          key={row.id}
          {...given}
          id={`row-${first + at}`}
          row={row}
          now={isLive && isOpenEnded(row) ? now : last}
          selected={row.id === node ? (event ?? 0) : 0}
          isCurrent={row.id === node}
          isOpen={isOpen(row)}
          top={(first + at) * height}
        />
      ))}
    </div>
  );
});

/** Whether something of the row has no end yet. */
function isOpenEnded(row: Row): boolean {
  return (
    row.attempts.some((each) => each.ended === null) ||
    row.waits.some((each) => each.to === null) ||
    row.rows.some(isOpenEnded)
  );
}
