import { type ComponentType, Suspense } from "react";
import { useParams } from "react-router";
import { lazyPart } from "@/api/parts";
import { usePageTitle } from "@/ui/PageHeading";
import { ActionDialogs } from "../actions/ActionDialogs";
import { type RunDetail, RunProvider, TABS, type Tab, useRunDetail } from "./context";
import { Header } from "./Header";
import { isDeleted, RunNotLoaded } from "./RunNotLoaded";
import { TabBar } from "./TabBar";
import { Verdict } from "./Verdict";

const PARTS: Record<Tab, ComponentType> = {
  story: lazyPart(() => import("./tabs/Story")),
  timeline: lazyPart(() => import("./tabs/Timeline")),
  graph: lazyPart(() => import("./tabs/Graph")),
  events: lazyPart(() => import("./tabs/Events")),
  logs: lazyPart(() => import("./tabs/Logs")),
  values: lazyPart(() => import("./tabs/Values")),
  branches: lazyPart(() => import("./tabs/Branches")),
};

/** One run: what it is, what has to be done, and the tabs that show why. */
export default function RunPage() {
  const { run = "", tab } = useParams();
  const { data: detail, error, refetch } = useRunDetail(run);
  const shown = TABS.find((each) => each === tab) ?? "story";
  if (!detail || isDeleted(error)) return <RunNotLoaded run={run} error={error} retry={() => void refetch()} />;
  return <Loaded key={run} detail={detail} tab={shown} />;
}

function Loaded({ detail, tab }: { detail: RunDetail; tab: Tab }) {
  usePageTitle(detail.title || detail.run);
  const Part = PARTS[tab];
  return (
    <RunProvider detail={detail} tab={tab}>
      <Header />
      <Verdict />
      <TabBar />
      <Suspense fallback={null}>
        <Part />
      </Suspense>
      <ActionDialogs detail={detail} />
    </RunProvider>
  );
}
