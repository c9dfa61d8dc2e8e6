/*
 * lwIP for all Cortex-M ports and the host process over libslirp. Raw API, one thread. What it takes: a heap
 * of MEM_SIZE and PBUF_POOL_SIZE receive buffers, held against the budget by scripts/firmware-sizes.
 */
#ifndef SHOAL_FIRMWARE_NET_LWIPOPTS_H
#define SHOAL_FIRMWARE_NET_LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0
#define LWIP_NETCONN 0
#define LWIP_RAW 0
#define LWIP_IPV6 0
#define LWIP_ARP 1
#define LWIP_ICMP 1
#define LWIP_UDP 1
#define LWIP_TCP 1
#define LWIP_DNS 1
#define LWIP_DHCP 1
#define DHCP_DOES_ARP_CHECK 0 /* it costs a second of every start */
#define LWIP_DHCP_MAX_DNS_SERVERS 1
#define LWIP_NETIF_HOSTNAME 1
#define IP_REASSEMBLY 0
#define IP_FRAG 0

#define MEM_ALIGNMENT __SIZEOF_POINTER__
#define MEM_SIZE (24 * 1024 * (__SIZEOF_POINTER__ / 4))
#define MEMP_NUM_UDP_PCB 3
#define MEMP_NUM_TCP_PCB 4
#define MEMP_NUM_TCP_PCB_LISTEN 1
#define MEMP_NUM_TCP_SEG 32
#define MEMP_NUM_PBUF 8
#define PBUF_POOL_SIZE 20
#define PBUF_POOL_BUFSIZE 1536 /* a whole frame: no chains on the way in */

#define TCP_MSS 1460
#define TCP_WND (6 * TCP_MSS) /* the modelled LAN9118 holds 10,560 bytes: more, and frames are lost */
#define TCP_SND_BUF (8 * TCP_MSS)
#define TCP_SND_QUEUELEN 32
#define TCP_OVERSIZE TCP_MSS
#define TCP_QUEUE_OOSEQ 1
#define LWIP_TCP_KEEPALIVE 0 /* the protocol above has its own signs of life */

#define LWIP_STATS 1
#define LWIP_STATS_DISPLAY 0
#define MEM_STATS 1
#define MEMP_STATS 1
#define LINK_STATS 0
#define IP_STATS 0
#define ICMP_STATS 0
#define UDP_STATS 0
#define TCP_STATS 0
#define ETHARP_STATS 0
#define SYS_STATS 0

#endif
