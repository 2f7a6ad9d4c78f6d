import type { ComponentType } from "react";
import { createBrowserRouter, type RouteObject } from "react-router";
import { ROOT } from "./api/client";
import { loadPart } from "./api/parts";
import RunsPage from "./features/runs/RunsPage";
import { NoSuchPage, PageError } from "./shell/errors";
import { Shell } from "./shell/Shell";

/** A page that is loaded when it is first opened. */
function page(path: string, load: () => Promise<{ default: ComponentType }>): RouteObject {
  return { path, lazy: async () => ({ Component: (await loadPart(load)).default }), HydrateFallback: () => null };
}

export const router = createBrowserRouter(
  [
    { ...page("sign-in", () => import("./features/sign-in/SignInPage")), HydrateFallback: () => null },
    {
      Component: Shell,
      ErrorBoundary: PageError,
      HydrateFallback: () => null,
      children: [
        { index: true, Component: RunsPage },
        page("runs/:run/compare", () => import("./features/run/ComparePage")),
        page("runs/:run/:tab?", () => import("./features/run/RunPage")),
        page("start/:workflow?", () => import("./features/workflows/StartPage")),
        page("inbox", () => import("./features/inbox/InboxPage")),
        page("workflows", () => import("./features/workflows/WorkflowsPage")),
        page("workflows/:workflow", () => import("./features/workflows/WorkflowPage")),
        page("workers", () => import("./features/workers/WorkersPage")),
        page("sweeper", () => import("./features/sweeper/SweeperPage")),
        page("audit", () => import("./features/audit/AuditPage")),
        page("bulk/:run", () => import("./features/bulk/BulkPage")),
        page("tokens", () => import("./features/tokens/TokensPage")),
        page("settings", () => import("./features/settings/SettingsPage")),
        { path: "*", Component: NoSuchPage },
      ],
    },
  ],
  { basename: new URL(ROOT).pathname.replace(/\/$/, "") || "/" },
);
