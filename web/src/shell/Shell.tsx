import { Ellipsis, Inbox, LayoutList, Workflow } from "lucide-react";
import { NavLink, Outlet, ScrollRestoration } from "react-router";
import { useInbox, useMay, useMe } from "@/api/queries";
import { FindRun } from "./FindRun";
import { LiveDot } from "./LiveDot";
import { Logo } from "./Logo";

const PLACES = [
  { to: "/", name: "Runs", may: "runs:read" },
  { to: "/inbox", name: "Inbox", may: "runs:read" },
  { to: "/workflows", name: "Workflows", may: "workflows:read" },
  { to: "/workers", name: "Workers", may: "workers:read" },
  { to: "/sweeper", name: "Sweeper", may: "sweeper:run" },
  { to: "/audit", name: "Audit", may: "tokens:manage" },
];

/** What surrounds every page: the bar at the top, or at the bottom on narrow screens. */
export function Shell() {
  return (
    <>
      <a href="#main" className="sr-only focus:not-sr-only">
        Skip to the content
      </a>
      <TopBar />
      <main id="main" className="px-6 pt-4 pb-8 max-md:px-4 max-md:pt-3 max-md:pb-22">
        <Outlet />
      </main>
      <BottomBar />
      <ScrollRestoration />
    </>
  );
}

function TopBar() {
  const may = useMe().data?.permissions ?? [];
  return (
    <header className="sticky top-0 z-20 flex h-12 items-center gap-1 border-b border-line bg-surface px-6 max-md:px-4">
      <NavLink to="/" className="mr-4 flex items-center gap-2 text-read font-semibold max-md:mr-auto">
        <Logo /> Outlast
      </NavLink>
      <nav aria-label="Pages" className="flex h-full max-md:hidden">
        {PLACES.filter((place) => may.includes(place.may)).map((place) => (
          <NavLink
            key={place.to}
            to={place.to}
            end={place.to === "/"}
            className="relative flex items-center gap-1.5 px-2.5 text-text-2 hover:text-text aria-[current=page]:font-semibold aria-[current=page]:text-text aria-[current=page]:after:absolute aria-[current=page]:after:inset-x-2.5 aria-[current=page]:after:-bottom-px aria-[current=page]:after:h-0.5 aria-[current=page]:after:bg-ink"
          >
            {place.name}
            {place.to === "/inbox" ? <InboxCount /> : null}
          </NavLink>
        ))}
      </nav>
      <div className="ml-auto flex items-center gap-4 max-md:ml-0">
        <FindRun />
        <LiveDot />
        <Me />
      </div>
    </header>
  );
}

function InboxCount({ className = "" }: { className?: string }) {
  const inbox = useInbox().data;
  if (!inbox?.questions.length) return null;
  const count = `${inbox.questions.length}${inbox.next ? "+" : ""}`;
  return (
    <span
      className={`min-w-4.5 rounded-full bg-wait-tint px-1.5 py-px text-center text-meta font-semibold text-wait ${className}`}
    >
      {count}
    </span>
  );
}

function Me() {
  const me = useMe().data;
  if (!me) return null;
  return (
    <NavLink
      to="/settings"
      aria-label={`${me.by}, ${me.role}: settings`}
      title={`${me.by}, ${me.role}`}
      className="grid size-7 place-items-center rounded-full bg-selected text-meta font-semibold max-md:hidden"
    >
      {me.by.slice(0, 2).toUpperCase()}
    </NavLink>
  );
}

function BottomBar() {
  const mayWorkers = useMay("workers:read");
  const item =
    "relative flex flex-1 flex-col items-center justify-center gap-0.5 text-meta text-text-2 aria-[current=page]:font-semibold aria-[current=page]:text-text";
  return (
    <nav
      aria-label="Pages"
      className="fixed inset-x-0 bottom-0 z-20 flex h-14 border-t border-line bg-surface md:hidden"
    >
      <NavLink to="/" end className={item}>
        <LayoutList size={20} aria-hidden /> Runs
      </NavLink>
      <NavLink to="/inbox" className={item}>
        <Inbox size={20} aria-hidden /> Inbox
        <InboxCount className="absolute top-1 left-[calc(50%+6px)]" />
      </NavLink>
      {mayWorkers ? (
        <NavLink to="/workers" className={item}>
          <Workflow size={20} aria-hidden /> Workers
        </NavLink>
      ) : null}
      <NavLink to="/settings" className={item}>
        <Ellipsis size={20} aria-hidden /> More
      </NavLink>
    </nav>
  );
}
