package app

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/console/consoletest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
)

// TestBrokerServesTheConsole runs the broker's binary with the rights that the chart grants with console.enabled. Each
// user sees what the API server lets that user list.
func TestBrokerServesTheConsole(t *testing.T) {
	objects, err := chart.BrokerWithConsole("liqo-resource-broker", "liqo-resource-broker")
	if err != nil {
		t.Fatal(err)
	}
	b := installBench(t, objects)
	port, err := b.plane.Port("console")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	browser := consoletest.NewBrowser(t, address, time.Now())
	b.start("--console-bind-address="+address, "--console-cert-path="+browser.CertDir)
	b.apply(localCluster)
	b.awaitAvailable("local-cluster-adv", "8950m", "")
	b.apply(reservationText("secret-plan", "1", "1Gi", ""))
	b.awaitPhase("secret-plan", brokerv1alpha1.ReservationReserved)
	browser.Await()

	group := brokerv1alpha1.GroupVersion.Group
	tokens := map[string]string{
		"reader":   consoletest.User(t, b.config, "reader", group, "reservations", "clusteradvertisements", "brokerconfigs"),
		"lender":   consoletest.User(t, b.config, "lender", group, "clusteradvertisements"),
		"nobody":   consoletest.User(t, b.config, "nobody", group),
		"a forger": "no.valid.token",
		"a guest":  "",
	}
	const plan, cluster = "secret-plan", "local-cluster-adv"
	for _, test := range []struct {
		user, path string
		status     int
		shown      string
	}{
		{"reader", "/reservations", http.StatusOK, plan},
		{"reader", "/clusters", http.StatusOK, cluster},
		{"reader", "/objects/reservation/default/" + plan, http.StatusOK, plan},
		{"lender", "/", http.StatusOK, "you may not list"},
		{"lender", "/clusters", http.StatusOK, cluster},
		{"lender", "/reservations", http.StatusOK, "you may not list"},
		{"lender", "/objects/reservation/default/" + plan, http.StatusNotFound, "or you may not list it"},
		{"lender", "/objects/reservation/default/none", http.StatusNotFound, "or you may not list it"},
		{"nobody", "/", http.StatusOK, "you may not list"},
		{"nobody", "/clusters", http.StatusOK, "you may not list"},
		{"nobody", "/objects/clusteradvertisement/default/" + cluster, http.StatusNotFound, "or you may not list it"},
		{"a forger", "/reservations", http.StatusUnauthorized, "Log in again"},
		{"a guest", "/reservations", http.StatusUnauthorized, "Log in"},
		{"a guest", "/live/reservations", http.StatusUnauthorized, ""},
		{"a guest", "/objects/reservation/default/" + plan, http.StatusUnauthorized, "Log in"},
	} {
		status, text := browser.Load(test.path, tokens[test.user])
		if status != test.status || !strings.Contains(text, test.shown) {
			t.Errorf("%s gets %d for %s, want %d and %q:\n%.2000s", test.user, status, test.path, test.status, test.shown, text)
		}
		if test.user != "reader" && test.shown != plan && showsObject(text, test.path, plan) {
			t.Errorf("%s reads %q at %s", test.user, plan, test.path)
		}
		if test.user != "reader" && test.user != "lender" && showsObject(text, test.path, cluster) {
			t.Errorf("%s reads %q at %s", test.user, cluster, test.path)
		}
	}

	log, err := os.ReadFile(b.broker.Log())
	if err != nil {
		t.Fatal(err)
	}
	for user, token := range tokens {
		if token != "" && strings.Contains(string(log), token) {
			t.Errorf("the log contains the token of %s", user)
		}
	}
}

// showsObject reports whether a page names an object, apart from the path that the user asked for.
func showsObject(text, path, name string) bool {
	return strings.Contains(strings.ReplaceAll(text, path, ""), name)
}
