import { X } from "lucide-react";
import { preciseClock } from "@/model/durations";
import { Button } from "@/ui/Button";
import { useSettings } from "@/ui/settings";
import { useRun } from "./context";

/** The instant that is shown: now, or an event in the past, from which one can return. */
export function ShownAsOf() {
  const { place, log, go } = useRun();
  const zone = useSettings((settings) => settings.zone);
  if (place.at === null) return <span className="text-meta font-semibold">now</span>;
  const time = log.event(place.at)?.time;
  return (
    <Button small onClick={() => go({ at: null })} aria-label="Show now">
      {time ? `${preciseClock(time / 1000, zone)}, ` : ""}event {place.at} <X size={14} aria-hidden />
    </Button>
  );
}
