package requests

import (
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

func TestIdlePolicyOutOfBoundsIsRefused(t *testing.T) {
	for name, idle := range map[string]*v1.Idle{
		"too short":         {AfterSeconds: 59, Action: v1.IdleActionNotify},
		"too long":          {AfterSeconds: int64(LongestDuration/time.Second) + 1, Action: v1.IdleActionNotify},
		"an unknown action": {AfterSeconds: 60, Action: "Delete"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readIdlePolicy(idle); fault.ReasonOf(err) != fault.Invalid {
				t.Errorf("answered with %v", err)
			}
		})
	}
}
