# The first sector of a disk that holds a kernel and an initramfs: loads both by way of the BIOS and begins the
# kernel as the boot protocol of Linux for x86 says. Sizes and places are given when it is assembled.
.intel_syntax noprefix
.code16
.globl _start
_start:
    cli
    xor ax, ax
    mov ds, ax
    mov es, ax
    mov ss, ax
    mov sp, 0x7c00
    sti
    cld
    mov [drive], dl
    # Its first part, which runs as we do, to 1000:0000.
    mov eax, 1
    mov ecx, SETUP_SECTORS
    mov bx, 0x1000
    call read
    mov ax, 0x1000
    mov es, ax
    # What it has to be told: that there is a loader, a heap, words for it, and an initramfs.
    mov byte ptr es:[0x210], 0xff
    or byte ptr es:[0x211], 0x80
    mov word ptr es:[0x224], 0xde00
    mov dword ptr es:[0x228], 0x1e000
    mov dword ptr es:[0x218], INITRAMFS_AT
    mov dword ptr es:[0x21c], INITRAMFS_BYTES
    mov si, offset words
    mov di, 0xe000
    mov cx, 64
    rep movsb
    # The kernel itself, and the initramfs.
    mov eax, 1 + SETUP_SECTORS
    mov ecx, KERNEL_SECTORS
    mov edi, 0x100000
    call load
    mov eax, INITRAMFS_SECTOR
    mov ecx, INITRAMFS_SECTORS
    mov edi, INITRAMFS_AT
    call load
    cli
    mov ax, 0x1000
    mov ds, ax
    mov es, ax
    mov fs, ax
    mov gs, ax
    mov ss, ax
    mov sp, 0xe000
    .byte 0xea
    .word 0, 0x1020

# Loads ecx sectors from eax on to the address edi, 64 at a time through 2000:0000.
load:
    mov [sector], eax
    mov [left], ecx
    mov [address], edi
next:
    mov ecx, [left]
    test ecx, ecx
    jz done
    cmp ecx, 64
    jbe few
    mov ecx, 64
few:
    mov eax, [sector]
    mov bx, 0x2000
    push ecx
    call read
    pop ecx
    sub [left], ecx
    add [sector], ecx
    mov eax, [address]
    mov [target_low], ax
    shr eax, 16
    mov [target_middle], al
    mov [target_high], ah
    # In words of two bytes.
    shl ecx, 8
    push ecx
    xor ax, ax
    mov es, ax
    mov si, offset descriptors
    mov ah, 0x87
    int 0x15
    jc fail
    pop ecx
    shl ecx, 1
    add [address], ecx
    jmp next
done:
    ret

# Reads ecx sectors from eax on to bx:0000.
read:
    mov [count], cx
    mov [segment], bx
    mov [from], eax
    mov si, offset packet
    mov dl, [drive]
    mov ah, 0x42
    int 0x13
    jc fail
    ret

fail:
    hlt
    jmp fail

drive: .byte 0
.balign 4
sector: .long 0
left: .long 0
address: .long 0
packet: .byte 16, 0
count: .word 0
    .word 0
segment: .word 0
from: .quad 0
descriptors:
    .quad 0, 0
    # From 0x20000.
    .word 0xffff, 0
    .byte 2, 0x93, 0, 0
    .word 0xffff
target_low: .word 0
target_middle: .byte 0
    .byte 0x93, 0
target_high: .byte 0
    .quad 0, 0
# At most 64 bytes, with the zero at their end.
words: .asciz "console=ttyS0 tsc=reliable no_timer_check panic=-1"
.org 510
.word 0xaa55
