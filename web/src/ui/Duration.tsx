import { duration, exactMoment } from "@/model/durations";
import { msOf, type Time } from "./Moment";
import { useNow } from "./now";
import { useSettings } from "./settings";

/** A duration in milliseconds. */
export function Duration({ ms, className }: { ms: number | null | undefined; className?: string }) {
  return <span className={className}>{ms === null || ms === undefined ? "–" : duration(ms)}</span>;
}

/** How long it is since a moment, by the server's clock; it stops at `until`. The moment is on hover. */
export function Since({ from, until, className }: { from: Time; until?: Time | null | undefined; className?: string }) {
  const hasEnded = until !== null && until !== undefined;
  return hasEnded ? (
    <SinceText from={from} ms={msOf(until) - msOf(from)} className={className} />
  ) : (
    <Ticking from={from} className={className} />
  );
}

function Ticking({ from, className }: { from: Time; className: string | undefined }) {
  return <SinceText from={from} ms={useNow() - msOf(from)} whole className={className} />;
}

function SinceText({
  from,
  ms,
  whole,
  className,
}: {
  from: Time;
  ms: number;
  whole?: boolean;
  className: string | undefined;
}) {
  const zone = useSettings((settings) => settings.zone);
  return (
    <time dateTime={new Date(msOf(from)).toISOString()} title={exactMoment(msOf(from), zone)} className={className}>
      {duration(ms, { whole: whole ?? false })}
    </time>
  );
}
