import { PageHeading } from "@/ui/PageHeading";

export default function SettingsPage() {
  return <PageHeading title="Settings" />;
}
