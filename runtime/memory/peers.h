/* peers.h: whether work of one device may use memory of another as it is. The model stands in
** devices.h. */
#ifndef TIDEI_PEERS_H
#define TIDEI_PEERS_H

#include "runtime/memory/storage.h"

/* Whether work of d may use the storage, as far as is known already. */
bool tidei_peer_known(const tidei_dev *d, const tidei_storage *st);
/* The same, found out: TIDE_OK, or an error that names both devices and what can be done. No
** stream's lock is held. Waits for the streams by which it is found out, once for two devices. */
tide_status tidei_peer_need(tidei_dev *d, tidei_storage *st, const char *op);
/* Whether work of d may use memory of `other`, found out if it is not known yet. */
tide_status tidei_peer_look(tidei_dev *d, tidei_dev *other, const char *op, bool *reaches);
/* Whether that would succeed; an error of finding out is none of the caller's. */
bool tidei_peer_possible(tidei_dev *d, tidei_storage *st);

#endif
