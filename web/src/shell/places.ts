/** The pages that have an entry, and the permission that each needs. `isMore`: on narrow screens it is in the menu More. */
export const PLACES = [
  { to: "/", name: "Runs", may: "runs:read", isMore: false },
  { to: "/inbox", name: "Inbox", may: "runs:read", isMore: false },
  { to: "/workflows", name: "Workflows", may: "workflows:read", isMore: true },
  { to: "/workers", name: "Workers", may: "workers:read", isMore: false },
  { to: "/sweeper", name: "Sweeper", may: "sweeper:run", isMore: true },
  { to: "/audit", name: "Audit", may: "audit:list", isMore: true },
];
