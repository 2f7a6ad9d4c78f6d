import { History } from "lucide-react";
import { useKeys } from "@/ui/keys";
import { useIsWide } from "@/ui/media";
import { Tabs } from "@/ui/Tabs";
import { TABS, type Tab, useRun } from "./context";
import { ShownAsOf } from "./ShownAsOf";

const NAMES: Record<Tab, string> = {
  story: "Story",
  timeline: "Timeline",
  graph: "Graph",
  events: "Events",
  logs: "Logs",
  values: "Inputs and outputs",
  branches: "Branches",
};

/** The tabs of a run. What is selected stays selected in the next tab; a window of time belongs to the timeline. */
export function TabBar() {
  const { detail, place, to, go } = useRun();
  const counts: Partial<Record<Tab, string>> = {
    events: detail.at.toLocaleString("en-US"),
    branches: String(detail.branch + 1),
  };
  useKeys(Object.fromEntries(TABS.map((tab, at) => [String(at + 1), () => go({ tab, event: null })])));
  const asOf = (
    <>
      <span className="flex items-center gap-1 text-meta text-text-2">
        <History size={14} aria-hidden /> Shown as of
      </span>
      <ShownAsOf />
    </>
  );
  const isWide = useIsWide(700);
  return (
    <>
      <Tabs
        label="Views of this run"
        current={place.tab}
        tabs={TABS.map((tab) => ({ key: tab, name: NAMES[tab], to: to({ tab, event: null }), count: counts[tab] }))}
        end={isWide ? asOf : undefined}
      />
      {isWide ? null : <p className="-mt-1 mb-3 flex items-center gap-2">{asOf}</p>}
    </>
  );
}
