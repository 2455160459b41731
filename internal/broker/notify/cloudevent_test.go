package notify_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// The key, message and signature are the example in the specification of Standard Webhooks.
func TestSignatureIsThatOfStandardWebhooks(t *testing.T) {
	keys, err := notify.ReadKeys([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"))
	runtest.Check(t, err)
	got := notify.Sign(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got[notify.HeaderSignature] != want || got[notify.HeaderTimestamp] != "1614265330" {
		t.Errorf("got %v, want the signature %s", got, want)
	}
}

func TestExchangedKeyIsValidBesideTheNewOne(t *testing.T) {
	one, two := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_"+strings.Repeat("A", 44)
	keys, err := notify.ReadKeys([]byte(two + " " + one))
	runtest.Check(t, err)
	signatures := strings.Fields(notify.Sign(keys, "id", time.Unix(1, 0), []byte("body"))[notify.HeaderSignature])
	former, err := notify.ReadKeys([]byte(one))
	runtest.Check(t, err)
	if want := notify.Sign(former, "id", time.Unix(1, 0), []byte("body"))[notify.HeaderSignature]; len(signatures) != 2 || !slices.Contains(signatures, want) {
		t.Errorf("signatures %q do not contain that of the former key, %s", signatures, want)
	}
}

func TestWrongKeyIsRefused(t *testing.T) {
	for name, value := range map[string]string{"none": " \n", "a password": "hunter2", "a short key": "whsec_c2hvcnQ=", "one of two": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw x"} {
		if _, err := notify.ReadKeys([]byte(value)); err == nil || !strings.Contains(err.Error(), "echo whsec_$(openssl rand -base64 32)") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventIsEncodedAsCloudEvent(t *testing.T) {
	event := &notify.Event{Type: notify.Active, Subject: "res-a", Index: 1, Data: notify.Data{
		Position: 431, Time: start.In(time.FixedZone("", 3600)), Kind: "nodeReady", Actor: "rome", Message: "res-a <of> rome", Reservation: "res-a", Requester: "rome",
	}}
	got, err := notify.Encode(event, "j1")
	runtest.Check(t, err)
	const want = `{"specversion":"1.0","id":"j1-431-1","source":"/broker.fluidos.eu/journals/j1","type":"eu.fluidos.broker.reservation.active.v1",` +
		`"subject":"res-a","time":"2030-01-01T08:00:00Z","sequence":"00000000000000000431.00001","datacontenttype":"application/json",` +
		`"data":{"position":431,"time":"2030-01-01T09:00:00+01:00","kind":"nodeReady","actor":"rome","message":"res-a \u003cof\u003e rome","reservation":"res-a","requester":"rome"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAddressesOfThisMachineAreRefused(t *testing.T) {
	for _, refused := range []string{
		"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "::ffff:169.254.169.254",
		"64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "255.255.255.255", "100.100.100.200", "168.63.129.16", "fd00:ec2::254",
	} {
		if err := notify.CheckAddress(netip.MustParseAddr(refused)); err == nil {
			t.Errorf("%s is accepted", refused)
		}
	}
	for _, accepted := range []string{"10.0.0.1", "192.168.1.2", "172.16.0.1", "100.64.0.1", "203.0.113.9", "2001:db8::1", "fd00::1", "64:ff9b::808:808"} {
		if err := notify.CheckAddress(netip.MustParseAddr(accepted)); err != nil {
			t.Errorf("%s: %v", accepted, err)
		}
	}
	if notify.CheckAddress(netip.Addr{}) == nil {
		t.Error("no address is accepted")
	}
}
