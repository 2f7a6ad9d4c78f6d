import type { ReactNode } from "react";
import { useMe } from "@/api/queries";
import { signOut } from "@/api/sign-out";
import { Button } from "@/ui/Button";
import { Tick } from "@/ui/Field";
import { PageHeading } from "@/ui/PageHeading";
import { Panel } from "@/ui/Panel";
import { useSettings } from "@/ui/settings";
import { Segments } from "@/ui/Tabs";
import { toastProblem } from "@/ui/Toast";

/** Settings of this person in this browser. */
export default function SettingsPage() {
  const me = useMe().data;
  const { theme, zone, density, keys, set } = useSettings();
  return (
    <div className="flex max-w-170 flex-col gap-4">
      <PageHeading title="Settings" />
      <Panel title="This page" note="kept in this browser">
        <Row name="Theme">
          <Segments
            label="Theme"
            value={theme}
            onChange={(value) => set({ theme: value })}
            choices={[
              { value: "system", text: "As the system" },
              { value: "light", text: "Light" },
              { value: "dark", text: "Dark" },
            ]}
          />
        </Row>
        <Row name="Times">
          <Segments
            label="Times"
            value={zone}
            onChange={(value) => set({ zone: value })}
            choices={[
              { value: "local", text: Intl.DateTimeFormat().resolvedOptions().timeZone },
              { value: "utc", text: "UTC" },
            ]}
          />
        </Row>
        <Row name="Rows">
          <Segments
            label="Rows"
            value={density}
            onChange={(value) => set({ density: value })}
            choices={[
              { value: "comfortable", text: "Comfortable" },
              { value: "dense", text: "Dense" },
            ]}
          />
        </Row>
        <Row name="Keys">
          <Tick checked={keys} onChange={(value) => set({ keys: value })}>
            Single keys act; <kbd>?</kbd> lists them
          </Tick>
        </Row>
      </Panel>
      {me ? (
        <Panel title="You">
          <Row name="Name">{me.by}</Row>
          <Row name="Role">{me.role}</Row>
          {me.kind === "session" ? (
            <div className="px-4 py-3">
              <Button onClick={() => void signOut().catch((error) => toastProblem("Not signed out", error))}>
                Sign out
              </Button>
            </div>
          ) : null}
        </Panel>
      ) : null}
    </div>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex min-h-12 items-center gap-4 border-b border-line px-4 py-2 last:border-0 max-md:flex-col max-md:items-start max-md:gap-2">
      <span className="w-28 flex-none text-text-2">{name}</span>
      {children}
    </div>
  );
}
