interface Place {
  to: string;
  name: string;
  may: string;
  isMore: boolean;
  /** What its addresses begin with. */
  within: string[];
}

/** The pages that have an entry, and the permission that each needs. `isMore`: on narrow screens it is in the menu More. */
export const PLACES: Place[] = [
  { to: "/", name: "Runs", may: "runs:read", isMore: false, within: ["/runs/", "/bulk/"] },
  { to: "/inbox", name: "Inbox", may: "runs:read", isMore: false, within: ["/inbox"] },
  { to: "/workflows", name: "Workflows", may: "workflows:read", isMore: true, within: ["/workflows", "/start"] },
  { to: "/workers", name: "Workers", may: "workers:read", isMore: false, within: ["/workers"] },
  { to: "/sweeper", name: "Sweeper", may: "sweeper:run", isMore: true, within: ["/sweeper"] },
  { to: "/audit", name: "Audit", may: "audit:list", isMore: true, within: ["/audit"] },
];

/** The entry to which the page at this path belongs. */
export const placeAt = (path: string): string =>
  PLACES.find((place) => place.to === path || place.within.some((begin) => path.startsWith(begin)))?.to ?? "";
