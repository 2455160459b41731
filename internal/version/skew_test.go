package version

import "testing"

func TestSkewFitsWithinOneMinorVersion(t *testing.T) {
	const upgradeAgent, upgradeBroker = "upgrade this agent, one minor version after the other", "upgrade the broker, one minor version after the other"
	for skew, advice := range map[Skew]string{
		{Agent: 3, Broker: 3}: "",
		{Agent: 4, Broker: 3}: "",
		{Agent: 3, Broker: 4}: "",
		{Agent: 5, Broker: 3}: upgradeBroker,
		{Agent: 3, Broker: 5}: upgradeAgent,
		{Agent: 9, Broker: 0}: upgradeBroker,
	} {
		if got := skew.Advice(); got != advice || skew.Fits() != (advice == "") {
			t.Errorf("%s: fits %t, advice %q; want %q", skew, skew.Fits(), got, advice)
		}
	}
}
