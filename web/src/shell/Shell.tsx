import { Cpu, Inbox, LayoutList } from "lucide-react";
import { useEffect, useState } from "react";
import { Link, Outlet, ScrollRestoration, useLocation, useNavigate } from "react-router";
import { useHeldRuns, useInbox, useMay, useMe } from "@/api/queries";
import { takeReturn } from "@/api/return";
import { useSession } from "@/api/session";
import { useKeys } from "@/ui/keys";
import { Toasts } from "@/ui/Toast";
import { ConnectionBar } from "./ConnectionBar";
import { FindRun } from "./FindRun";
import { KeyList } from "./KeyList";
import { LiveDot } from "./LiveDot";
import { Logo } from "./Logo";
import { MoreMenu, PersonMenu } from "./PersonMenu";
import { PLACES, placeAt } from "./places";
import { SignedOut } from "./SignedOut";

/** What surrounds every page: the bar at the top, or at the bottom on narrow screens. */
export function Shell() {
  const isSignedOut = useSession((session) => session.isSignedOut);
  return isSignedOut ? <SignedOut /> : <SignedIn />;
}

function SignedIn() {
  const navigate = useNavigate();
  const isSignedIn = useMe().data !== undefined;
  const [hasKeyList, setKeyList] = useState(false);
  useEffect(() => {
    const to = isSignedIn ? takeReturn() : null;
    if (to) navigate(to, { replace: true });
  }, [isSignedIn, navigate]);
  useKeys({
    "g r": () => navigate("/"),
    "g i": () => navigate("/inbox"),
    "g w": () => navigate("/workflows"),
    "g k": () => navigate("/workers"),
    "?": () => setKeyList(true),
  });
  return (
    <>
      <button
        type="button"
        className="absolute -top-12 left-2 z-30 rounded-control bg-ink px-3 py-1.5 text-on-ink focus:top-2"
        onClick={() => document.getElementById("main")?.focus()}
      >
        Skip to the content
      </button>
      <div className="sticky top-0 z-20">
        <TopBar />
        <ConnectionBar />
      </div>
      <main id="main" tabIndex={-1} className="px-6 pt-4 pb-8 outline-none max-md:px-4 max-md:pt-3 max-md:pb-22">
        <Outlet />
      </main>
      <BottomBar />
      <Toasts />
      <KeyList open={hasKeyList} onClose={() => setKeyList(false)} />
      <ScrollRestoration />
    </>
  );
}

function TopBar() {
  const may = useMe().data?.permissions ?? [];
  const here = placeAt(useLocation().pathname);
  return (
    <header className="flex h-12 items-center gap-1 border-b border-line bg-surface px-6 max-md:px-4">
      <Link to="/" className="mr-4 flex items-center gap-2 text-read font-semibold max-md:mr-auto">
        <Logo /> Outlast
      </Link>
      <nav
        aria-label="Pages"
        className="flex h-full min-w-0 overflow-x-auto overflow-y-hidden whitespace-nowrap max-md:hidden"
      >
        {PLACES.filter((place) => may.includes(place.may)).map((place) => (
          <Link
            key={place.to}
            to={place.to}
            aria-current={place.to === here ? "page" : undefined}
            className="relative flex items-center gap-1.5 px-2.5 text-text-2 hover:text-text aria-[current=page]:font-semibold aria-[current=page]:text-text aria-[current=page]:after:absolute aria-[current=page]:after:inset-x-2.5 aria-[current=page]:after:-bottom-px aria-[current=page]:after:h-0.5 aria-[current=page]:after:bg-ink"
          >
            {place.name}
            {place.to === "/inbox" ? <InboxCount /> : null}
          </Link>
        ))}
      </nav>
      <div className="ml-auto flex flex-none items-center gap-4 pl-2 max-lg:gap-2 max-md:ml-0">
        <FindRun />
        <LiveDot />
        <PersonMenu />
      </div>
    </header>
  );
}

function InboxCount({ className = "" }: { className?: string }) {
  const inbox = useInbox().data;
  const held = useHeldRuns().data;
  const count = (inbox?.questions.length ?? 0) + (held?.runs.length ?? 0);
  if (!count) return null;
  return (
    <span
      className={`min-w-4.5 rounded-full bg-wait-tint px-1.25 py-px text-center text-meta font-semibold text-wait ${className}`}
    >
      {count}
      {inbox?.next || held?.next ? "+" : ""}
    </span>
  );
}

function BottomBar() {
  const mayWorkers = useMay("workers:read");
  const here = placeAt(useLocation().pathname);
  const current = (to: string) => (to === here ? "page" : undefined);
  const item =
    "relative flex flex-1 flex-col items-center justify-center gap-0.5 text-meta text-text-2 aria-[current=page]:font-semibold aria-[current=page]:text-text";
  return (
    <nav
      aria-label="Pages"
      className="fixed inset-x-0 bottom-0 z-20 flex h-14 border-t border-line bg-surface md:hidden"
    >
      <Link to="/" aria-current={current("/")} className={item}>
        <LayoutList size={20} aria-hidden /> Runs
      </Link>
      <Link to="/inbox" aria-current={current("/inbox")} className={item}>
        <Inbox size={20} aria-hidden /> Inbox
        <InboxCount className="absolute top-1 left-[calc(50%+6px)]" />
      </Link>
      {mayWorkers ? (
        <Link to="/workers" aria-current={current("/workers")} className={item}>
          <Cpu size={20} aria-hidden /> Workers
        </Link>
      ) : null}
      <MoreMenu className={item} />
    </nav>
  );
}
