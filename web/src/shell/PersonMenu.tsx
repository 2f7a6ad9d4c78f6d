import { Ellipsis, KeyRound, LogOut, Settings } from "lucide-react";
import { useNavigate } from "react-router";
import { useMe } from "@/api/queries";
import { signOut } from "@/api/sign-out";
import { Menu, MenuHeading, MenuItem, MenuLine } from "@/ui/Menu";
import { toastProblem } from "@/ui/Toast";
import { PLACES } from "./places";

/** Who looks at the page, their settings, and the way out. */
export function PersonMenu() {
  const me = useMe().data;
  if (!me) return null;
  return (
    <Menu
      align="end"
      trigger={
        <button
          type="button"
          aria-label={`${me.by}, ${me.role}`}
          title={`${me.by}, ${me.role}`}
          className="grid size-7 place-items-center rounded-full bg-selected text-meta font-semibold max-md:hidden"
        >
          {me.by.slice(0, 2).toUpperCase()}
        </button>
      }
    >
      <PersonItems />
    </Menu>
  );
}

/** On narrow screens: the pages that the bar has no space for, too. */
export function MoreMenu({ className }: { className: string }) {
  const navigate = useNavigate();
  const may = useMe().data?.permissions ?? [];
  return (
    <Menu
      align="end"
      trigger={
        <button type="button" className={className}>
          <Ellipsis size={20} aria-hidden /> More
        </button>
      }
    >
      {PLACES.filter((place) => place.isMore && may.includes(place.may)).map((place) => (
        <MenuItem key={place.to} onSelect={() => navigate(place.to)}>
          {place.name}
        </MenuItem>
      ))}
      <MenuLine />
      <PersonItems />
    </Menu>
  );
}

function PersonItems() {
  const navigate = useNavigate();
  const me = useMe().data;
  if (!me) return null;
  return (
    <>
      <MenuHeading>
        {me.by}, {me.role}
      </MenuHeading>
      <MenuItem onSelect={() => navigate("/settings")}>
        <Settings size={16} aria-hidden /> Settings
      </MenuItem>
      {me.permissions.includes("tokens:manage") ? (
        <MenuItem onSelect={() => navigate("/tokens")}>
          <KeyRound size={16} aria-hidden /> Tokens
        </MenuItem>
      ) : null}
      {me.kind === "session" ? (
        <>
          <MenuLine />
          <MenuItem onSelect={() => void signOut().catch((error) => toastProblem("Not signed out", error))}>
            <LogOut size={16} aria-hidden /> Sign out
          </MenuItem>
        </>
      ) : null}
    </>
  );
}
