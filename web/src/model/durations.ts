/** Durations, moments, counts and sizes as text. Durations are in milliseconds, moments in milliseconds since 1970. */

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** `345 ms`, `6.4 s`, `2 min 46 s`, `9 h 04 min`, `13 d 6 h`. Below zero is `0 ms`. With `whole`, seconds have no decimals. */
export function duration(ms: number, { whole = false }: { whole?: boolean } = {}): string {
  if (!(ms > 0)) return whole ? "0 s" : "0 ms";
  const seconds = ms / 1000;
  if (whole && seconds < 60) return `${Math.floor(seconds)} s`;
  if (ms < 999.5) return `${ms < 9.95 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
  if (seconds < 59.95) return `${Number(seconds.toFixed(1))} s`;
  const all = whole ? Math.floor(seconds) : Math.round(seconds);
  const at = UNITS.findIndex(([, size]) => all >= size);
  const [[unit, size] = ["s", 1], smaller] = UNITS.slice(at, at + 2);
  if (!smaller) return `${all} s`;
  const rest = Math.floor((all % size) / smaller[1]);
  return `${Math.floor(all / size)} ${unit} ${smaller[0] === "h" ? rest : String(rest).padStart(2, "0")} ${smaller[0]}`;
}

/** The time zone of the reader, or UTC. */
export type Zone = "local" | "utc";

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: Zone, name: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${zone} ${name}`;
  let found = formats.get(key);
  if (!found) {
    const utc = zone === "utc" ? { timeZone: "UTC" } : {};
    found = new Intl.DateTimeFormat("en-GB", { ...options, ...utc });
    formats.set(key, found);
  }
  return found;
}

const day = (zone: Zone, time: number) =>
  format(zone, "day", { year: "numeric", month: "numeric", day: "numeric" }).format(time);
const clock = (zone: Zone, time: number) =>
  format(zone, "clock", { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(time);

/** `20:53:24` today, `17 Nov, 20:53` this year, `17 Nov 2025, 20:53` otherwise. */
export function moment(time: number, now: number, zone: Zone = "local"): string {
  if (day(zone, time) === day(zone, now)) return clock(zone, time);
  const years = format(zone, "year", { year: "numeric" });
  const isThisYear = years.format(time) === years.format(now);
  const date = format(zone, isThisYear ? "date" : "date-year", {
    day: "numeric",
    month: "short",
    ...(isThisYear ? {} : { year: "numeric" }),
  }).format(time);
  return `${date}, ${clock(zone, time).slice(0, 5)}`;
}

/** The time of day with milliseconds, for events that are close together: `21:00:13.417`. */
export function preciseClock(time: number, zone: Zone = "local"): string {
  return `${clock(zone, time)}.${milliseconds(time)}`;
}

/** `Tuesday, 18 November 2026, 20:53:24.835 CET (19:53:24.835 UTC)`. */
export function exactMoment(time: number, zone: Zone = "local"): string {
  const date = format(zone, "long", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
  const parts = Object.fromEntries(date.formatToParts(time).map((part) => [part.type, part.value]));
  const said = `${parts.weekday}, ${parts.day} ${parts.month} ${parts.year}, ${preciseClock(time, zone)}`;
  const utc = `${preciseClock(time, "utc")} UTC`;
  const name = zoneName(time, zone);
  return name === "UTC" ? `${said} UTC` : `${said} ${name} (${utc})`;
}

/** The name of the zone at a time: `CET`, `UTC`, `GMT+5:30`. */
export function zoneName(time: number, zone: Zone = "local"): string {
  const parts = format(zone, "zone", { timeZoneName: "short" }).formatToParts(time);
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "UTC";
}

const milliseconds = (time: number) => String(((Math.floor(time) % 1000) + 1000) % 1000).padStart(3, "0");

/** `1,840`; above a million `1.2 M`. */
export function count(number: number): string {
  if (number < 1_000_000) return number.toLocaleString("en-US");
  return `${Number((number / 1_000_000).toFixed(1)).toLocaleString("en-US")} M`;
}

/** `1 node`, `3 nodes`. */
export function counted(number: number, noun: string, plural = `${noun}s`): string {
  return `${count(number)} ${number === 1 ? noun : plural}`;
}

/** `812 B`, `226 kB`, `1.4 MB`. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let at = 0;
  let amount = size / 1000;
  while (amount >= 999.5 && at < units.length - 1) {
    amount /= 1000;
    at += 1;
  }
  return `${amount < 9.95 && at > 0 ? Number(amount.toFixed(1)) : Math.round(amount)} ${units[at]}`;
}
