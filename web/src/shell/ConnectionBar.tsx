import { CircleCheck, RefreshCw, WifiOff } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { now } from "@/api/clock";
import { useLive } from "@/api/live";
import { useParts } from "@/api/parts";
import { retryNow } from "@/api/stream";
import { useVersion } from "@/api/version";
import { duration } from "@/model/durations";
import { Button } from "@/ui/Button";
import { useDirty } from "@/ui/drafts";
import { Moment } from "@/ui/Moment";
import { useNow } from "@/ui/now";

/** What is the matter with the connection: said when it has lasted for 2 s, and shortly when it is over. */
export function ConnectionBar() {
  const state = useLive((live) => live.state);
  const caughtUp = useLive((live) => live.caughtUp);
  const waiting = useParts((parts) => parts.waiting);
  const isNewer = useVersion((version) => version.isNewer);
  const wasLost = useRef(false);
  const [isBack, setBack] = useState(false);
  useNow();

  const skew = now() - Date.now();
  const isShown = state.is === "lost" && Date.now() - state.at >= 2000;
  if (isShown) wasLost.current = true;
  useEffect(() => {
    if (state.is !== "live" || !wasLost.current) return;
    wasLost.current = false;
    setBack(true);
    const timer = setTimeout(() => setBack(false), 4000);
    return () => clearTimeout(timer);
  }, [state]);

  if (isNewer) return <NewerVersion />;
  if (isShown || waiting) {
    const wait = state.is === "lost" ? Math.max(0, Math.ceil((state.next - Date.now()) / 1000)) : 0;
    return (
      <div
        role="status"
        className="flex items-center gap-2 bg-run-tint px-6 py-1.5 text-run max-md:flex-wrap max-md:px-4"
      >
        <WifiOff size={16} aria-hidden className="flex-none" />
        <span className="min-w-0 flex-1">
          <b>{waiting ? "The server does not answer." : "Reconnecting."}</b>{" "}
          {waiting ? "What you opened is shown as soon as it does. " : ""}
          {state.is === "lost" ? (
            <>
              What you see is from <Moment time={state.at + skew} />, {duration(Date.now() - state.at, { whole: true })}{" "}
              ago.{" "}
            </>
          ) : null}
          {wait ? `Next try in ${wait} s.` : "Trying now."}
        </span>
        <Button small look="soft" className="text-text" onClick={retryNow}>
          Try now
        </Button>
      </div>
    );
  }
  if (isBack && state.is === "live") {
    return (
      <div role="status" className="flex items-center gap-2 bg-done-tint px-6 py-1.5 text-done max-md:px-4">
        <CircleCheck size={16} aria-hidden />
        Live again.{caughtUp ? ` ${caughtUp} ${caughtUp === 1 ? "change was" : "changes were"} caught up.` : ""}
      </div>
    );
  }
  return null;
}

function NewerVersion() {
  const isDirty = useDirty((dirty) => dirty.forms > 0);
  return (
    <div role="status" className="flex items-center gap-2 bg-run-tint px-6 py-1.5 text-run max-md:px-4">
      <RefreshCw size={16} aria-hidden />
      <span className="flex-1">A newer version of this page is there.{isDirty ? " Your input is kept." : ""}</span>
      <Button small look="soft" className="text-text" onClick={() => location.reload()}>
        Reload
      </Button>
    </div>
  );
}
