import { exactMoment, moment, preciseClock } from "@/model/durations";
import { useNow } from "./now";
import { useSettings } from "./settings";

/** A time of the API (ISO 8601) or in milliseconds. */
export type Time = string | number;

export const msOf = (time: Time): number => (typeof time === "number" ? time : Date.parse(time));

/** A moment in the reader's zone, with the exact time on hover. With `precise`, the time of day with milliseconds. */
export function Moment({
  time,
  precise,
  className,
}: {
  time: Time | null | undefined;
  precise?: boolean;
  className?: string;
}) {
  const zone = useSettings((settings) => settings.zone);
  const now = useNow();
  if (time === null || time === undefined) return <span className="text-text-3">–</span>;
  const ms = msOf(time);
  return (
    <time dateTime={new Date(ms).toISOString()} title={exactMoment(ms, zone)} className={className}>
      {precise ? preciseClock(ms, zone) : moment(ms, now, zone)}
    </time>
  );
}

/** Which zone the times are in: the foot of every table says it. */
export function ZoneNote() {
  const zone = useSettings((settings) => settings.zone);
  const name = zone === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
  return <>Times are in {name}.</>;
}
