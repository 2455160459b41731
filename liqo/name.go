package liqo

import (
	"strconv"
)

// ObjectName names everything that is made for a placement: instruction, slice,
// virtual node and node.
func ObjectName(reservation string, placement int32) string {
	return reservation + "-" + strconv.Itoa(int(placement))
}
