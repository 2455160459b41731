// Package drain empties the virtual node of a placement that has ended. It cordons the node,
// evicts the pods as far as disruption budgets allow, and after the deadline deletes the
// pods that are left. Package plan decides when each of these steps is due; a Drainer
// observes the pods and carries out the steps.
package drain
