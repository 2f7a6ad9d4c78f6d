import { ChevronDown, ChevronLeft, ChevronRight, CornerUpLeft, X } from "lucide-react";
import { Popover } from "radix-ui";
import { useDeferredValue, useEffect, useId, useRef, useState } from "react";
import { useMay } from "@/api/queries";
import { preciseClock } from "@/model/durations";
import { Button } from "@/ui/Button";
import { useKeys } from "@/ui/keys";
import { useSettings } from "@/ui/settings";
import { useActions } from "../actions/store";
import { useRun } from "./context";

/** The instant that is shown: now, or an event in the past. A slider goes through the events of the branch. */
export function ShownAsOf() {
  const { place, log, go } = useRun();
  const zone = useSettings((settings) => settings.zone);
  const [isOpen, setOpen] = useState(false);
  const time = place.at === null ? 0 : (log.event(place.at)?.time ?? 0);
  const { now, seqAt, index } = useSteps();
  const step = (by: number) => {
    const next = index + by;
    go({ at: next >= now ? null : seqAt(Math.max(0, next)) }, { replace: true });
  };
  useKeys({ "[": () => step(-1), "]": () => step(1) });
  return (
    <Popover.Root open={isOpen} onOpenChange={setOpen}>
      <div className="flex items-center gap-1">
        <Popover.Trigger asChild>
          <Button look="soft" small aria-label="Choose the instant that is shown">
            {place.at === null ? (
              <b>now</b>
            ) : (
              <span>
                {time ? `${preciseClock(time / 1000, zone)}, ` : ""}event {place.at}
              </span>
            )}
            <ChevronDown size={14} aria-hidden />
          </Button>
        </Popover.Trigger>
        {place.at === null ? null : (
          <Button look="flat" small square aria-label="Show now" onClick={() => go({ at: null })}>
            <X size={14} aria-hidden />
          </Button>
        )}
      </div>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          className="z-50 w-[min(420px,calc(100vw-16px))] animate-appear rounded-panel border border-line-strong bg-surface p-4 shadow-float"
        >
          <Slider step={step} close={() => setOpen(false)} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

/** The events that one can go through: all in the order of the log, or those that a chosen branch sees. */
function useSteps() {
  const { log, place } = useRun();
  const intervals: readonly [number, number][] = place.branch === null ? [[1, log.seq]] : log.lineage(place.branch);
  const count = intervals.reduce((sum, [first, last]) => sum + Math.max(0, last - first + 1), 0);
  const seqAt = (index: number): number => {
    let left = index;
    for (const [first, last] of intervals) {
      if (left <= last - first) return first + left;
      left -= last - first + 1;
    }
    return intervals.at(-1)?.[1] ?? 0;
  };
  const indexOf = (seq: number): number => {
    let before = 0;
    for (const [first, last] of intervals) {
      if (seq < first) break;
      if (seq <= last) return before + seq - first;
      before += last - first + 1;
    }
    return Math.max(0, before - 1);
  };
  const now = Math.max(0, count - 1);
  return { now, seqAt, index: place.at === null ? now : indexOf(place.at) };
}

function Slider({ step, close }: { step: (by: number) => void; close: () => void }) {
  const { run, detail, log, place, go } = useRun();
  const zone = useSettings((settings) => settings.zone);
  const id = useId();
  const { now, seqAt, index } = useSteps();
  const [dragged, setDragged] = useState<number | null>(null);
  const rested = useDeferredValue(dragged);
  const latest = useRef(go);
  latest.current = go;
  const target = rested === null ? undefined : rested >= now ? null : seqAt(rested);
  useEffect(() => {
    if (target !== undefined) latest.current({ at: target }, { replace: true });
  }, [target]);
  const at = dragged ?? index;
  const event = log.event(seqAt(at));
  const mayJump = useMay("runs:jump") && detail.actions.some((action) => action.action === "jump");
  if (!event) return <p>The events are being loaded.</p>;
  return (
    <div className="flex flex-col gap-2">
      <label htmlFor={id} className="flex items-baseline justify-between gap-2">
        <span className="font-semibold">
          {at >= now ? "Now" : `Event ${event.seq}`} <span className="font-normal text-text-2">of {seqAt(now)}</span>
        </span>
        <span className="font-mono text-code text-text-2">{preciseClock(event.time / 1000, zone)}</span>
      </label>
      <div className="flex items-center gap-2">
        <Button
          look="flat"
          small
          square
          aria-label="Previous event"
          disabled={at <= 0}
          onClick={() => {
            setDragged(null);
            step(-1);
          }}
        >
          <ChevronLeft size={16} aria-hidden />
        </Button>
        <input
          id={id}
          type="range"
          min={0}
          max={now}
          value={at}
          aria-valuetext={at >= now ? "now" : `event ${event.seq}`}
          onChange={({ target }) => setDragged(Number(target.value))}
          onPointerUp={() => setDragged(null)}
          className="min-w-0 flex-1 accent-(--ink)"
        />
        <Button
          look="flat"
          small
          square
          aria-label="Next event"
          disabled={at >= now}
          onClick={() => {
            setDragged(null);
            step(1);
          }}
        >
          <ChevronRight size={16} aria-hidden />
        </Button>
      </div>
      <p className="line-clamp-3 min-h-15 break-words text-text-2">{event.text || event.type}</p>
      <div className="flex flex-wrap gap-2">
        <Button
          look="primary"
          disabled={place.at === null}
          title={place.at === null ? "This is now" : undefined}
          onClick={() => {
            setDragged(null);
            go({ at: null });
            close();
          }}
        >
          Show now
        </Button>
        {mayJump && place.at !== null ? (
          <Button
            onClick={() => {
              close();
              useActions.getState().ask({ kind: "jump", run, to: place.at ?? 0 });
            }}
          >
            <CornerUpLeft size={16} aria-hidden /> Go back to here…
          </Button>
        ) : null}
      </div>
    </div>
  );
}
